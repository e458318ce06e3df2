"""The console's forms that change data: each calls a tool, whose result says how to undo it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from functions.gateway.console.messages import describe_refused_undo
from functions.gateway.console.rendering import make_source_path
from functions.gateway.console.visits import Notice
from shared.core.errors import InvalidInput
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import WireError

UNDOING_TOOLS: Final = frozenset({"edit_source", "forget", "save_link", "save_note"})
"""The tools that an undo form may call."""


@dataclass(frozen=True, slots=True)
class FormCall:
    """The call that a form asks for."""

    tool: str
    arguments: dict[str, Any]


async def apply_change(visit: Visit, source_id: str, fields: dict[str, str]) -> WireError | None:
    """Make the call that a form asks for, and set the notice of the visit.

    Returns:
        The error if the call failed, otherwise None.

    Raises:
        InvalidInput: The form is not one of the console's.
    """
    form_call = parse_change(source_id, fields)
    if form_call is None:
        visit.notice = Notice("Nothing changed: it is like that already.")
        return None
    key = fields.get("idempotency_key")
    answer = await visit.call(form_call.tool, **{**form_call.arguments, "idempotency_key": key})
    if answer.error is None:
        visit.notice = make_notice(form_call.tool, answer.result or {})
    elif fields["action"] == "undo" and form_call.tool != "forget":
        return describe_refused_undo(answer.error)
    return answer.error


def parse_change(source_id: str, fields: dict[str, str]) -> FormCall | None:
    """Return the call that a form asks for, or None if the form changes nothing.

    Raises:
        InvalidInput: The form is not one of the console's.
    """
    parse = _PARSERS.get(fields.get("action", ""))
    if parse is None:
        raise InvalidInput("Press one of the buttons of the page.")
    return parse(source_id, fields)


def _parse_edit(source_id: str, fields: dict[str, str]) -> FormCall | None:
    changes = _find_changes(fields)
    revision = _parse_number(fields.get("revision", ""))
    return (
        FormCall("edit_source", {**_get_target(source_id, fields), "revision": revision, **changes})
        if changes
        else None
    )


def merge_draft(source: dict[str, Any], draft: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the form that edits a source.

    A field that the visitor changed has what was typed; any other has what is stored, which may be
    newer than the form.

    Args:
        source: The result of `get_source`.
        draft: The fields of the form that failed; empty if none did.
    """
    stored = {
        "title": source["title"],
        "author": source.get("author") or "",
        "tags": "\n".join(source["tags"]),
    }
    is_edit = draft.get("action") in {"edit", "edit_note"} and not draft.get("chunk_id")
    typed = _find_changes(draft) if is_edit else {}
    return stored | {name: draft.get(name, "") for name in typed}


def _find_changes(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields whose values differ from those that the form showed at first."""
    values = {
        "title": fields.get("title", ""),
        "author": fields.get("author", ""),
        "tags": _parse_lines(fields.get("tags", "")),
    }
    former_values = {
        "title": fields.get("former_title", ""),
        "author": fields.get("former_author", ""),
        "tags": _parse_lines(fields.get("former_tags", "")),
    }
    return {name: value for name, value in values.items() if value != former_values[name]}


def _parse_note_edit(source_id: str, fields: dict[str, str]) -> FormCall:
    """Return the call that edits a note: its text, and the other fields that the visitor changed.

    Without a title among them, `save_note` derives the title from the text if it did so before.
    """
    revision = _parse_number(fields.get("revision", ""))
    arguments = {"source_id": source_id, "revision": revision, "text": _parse_text(fields)}
    return FormCall("save_note", {**arguments, **_find_changes(fields)})


def _parse_reset(source_id: str, fields: dict[str, str]) -> FormCall:
    revision = _parse_number(fields.get("revision", ""))
    reset = [fields.get("field", "")]
    target = _get_target(source_id, fields)
    return FormCall("edit_source", {**target, "revision": revision, "reset": reset})


def _parse_note(_source_id: str, fields: dict[str, str]) -> FormCall:
    chunk_id = fields.get("chunk_id")
    corrects = True if fields.get("corrects") else None
    arguments = {"text": _parse_text(fields), "about": chunk_id, "corrects": corrects}
    return FormCall("save_note", arguments)


def _parse_new_note(_source_id: str, fields: dict[str, str]) -> FormCall:
    tags = _parse_lines(fields.get("tags", ""))
    arguments = {"text": _parse_text(fields), "title": fields.get("title"), "tags": tags or None}
    return FormCall("save_note", arguments)


def _parse_link(_source_id: str, fields: dict[str, str]) -> FormCall:
    return FormCall("save_link", {"url": fields.get("url", "").strip()})


def _parse_forgetting(source_id: str, fields: dict[str, str]) -> FormCall:
    return FormCall("forget", _get_target(source_id, fields))


def _get_target(source_id: str, fields: dict[str, str]) -> dict[str, Any]:
    """Return the argument that names the passage of a form, or else the source."""
    chunk_id = fields.get("chunk_id")
    return {"chunk_id": chunk_id} if chunk_id else {"source_id": source_id}


def _parse_restoring(source_id: str, fields: dict[str, str]) -> FormCall:
    forgetting = _parse_forgetting(source_id, fields)
    return FormCall("forget", {**forgetting.arguments, "forgotten": False})


def _parse_review(_source_id: str, fields: dict[str, str]) -> FormCall:
    arguments = {"chunk_id": fields.get("chunk_id"), "answer": fields.get("answer")}
    return FormCall("answer_review", arguments)


def _parse_undo(_source_id: str, fields: dict[str, str]) -> FormCall:
    tool = fields.get("tool", "")
    try:
        arguments = json.loads(fields.get("arguments", ""))
    except (ValueError, RecursionError):
        arguments = None
    if tool not in UNDOING_TOOLS or not isinstance(arguments, dict):
        raise InvalidInput("This cannot be undone here.")
    return FormCall(tool, arguments)


_PARSERS: Final[dict[str, Callable[[str, dict[str, str]], FormCall | None]]] = {
    "edit": _parse_edit,
    "edit_note": _parse_note_edit,
    "reset": _parse_reset,
    "note": _parse_note,
    "new_note": _parse_new_note,
    "link": _parse_link,
    "fetch": lambda _source_id, _fields: FormCall("fetch_links", {}),
    "forget": _parse_forgetting,
    "restore": _parse_restoring,
    "review": _parse_review,
    "undo": _parse_undo,
}


def _parse_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _parse_text(fields: dict[str, str]) -> str:
    return fields.get("text", "").replace("\r\n", "\n")


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInput("The form has no revision. Reload the page and try again.")
    return int(text[:9])


def make_notice(tool: str, result: dict[str, Any]) -> Notice:
    """Make the notice that says what a call did, and how to undo it."""
    undo = result.get("undo")
    fields = make_undo_fields(undo) if undo else None
    return Notice(_MESSAGES[tool](result), _find_path(tool, result), fields)


def make_undo_fields(call: dict[str, Any]) -> dict[str, str]:
    """Return the fields of the form that makes the call that undoes another."""
    return {"tool": call["tool"], "arguments": json.dumps(call["arguments"])}


def _find_path(tool: str, result: dict[str, Any]) -> str | None:
    """Return the path of what a call saved, changed or restored, if it is stored now."""
    if tool in {"fetch_links", "answer_review", "save_link"} or (
        tool == "forget" and result["forgotten"]
    ):
        return None
    chunk_id = result.get("chunk_id") if tool in {"edit_source", "forget"} else None
    return make_source_path(result["source_id"], chunk_id)


def _describe_edit(result: dict[str, Any]) -> str:
    if not result["changed"]:
        return "Nothing changed: it is like that already."
    later = " Filters follow within 15 minutes." if result["waiting"] else ""
    return f"Changed the {_join_words(result['changed'])}.{later}"


def _join_words(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _describe_note(result: dict[str, Any]) -> str:
    if result["changed"]:
        return f"Changed the {_join_words(result['changed'])}."
    if result["duplicate"]:
        return f"Nothing was saved: the note “{result['title']}” already says that, or nearly."
    return f"Saved. The note can be read by {result['readable_by']}."


def _describe_link(result: dict[str, Any]) -> str:
    if result["state"] == "cancelled":
        return "The page will not be fetched."
    expected = result.get("expected_by")
    time = f"by {expected}" if expected else "in a minute or two"
    return f"The page will be fetched. If that succeeds, search finds it {time}."


def _describe_fetching(result: dict[str, Any]) -> str:
    return f"{format_count(result['queued'], 'page')} will be fetched, one after the other."


def _describe_forgetting(result: dict[str, Any]) -> str:
    name = f"“{result['title']}”" if result.get("title") else "the source"
    subject = f"a passage of {name}" if result.get("chunk_id") else name
    if not result["changed"]:
        return "Nothing changed: this was done before."
    if not result["forgotten"]:
        return f"Restored {subject}."
    removed = result.get("removed") or {}
    count = format_count(removed.get("chunks", 0), "passage")
    return f"Forgot {subject}: {count}. It can be restored until {result.get('restorable_until')}."


_MESSAGES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "edit_source": _describe_edit,
    "fetch_links": _describe_fetching,
    "answer_review": lambda result: f"The passage comes back on {result['again']}.",
    "save_link": _describe_link,
    "save_note": _describe_note,
    "forget": _describe_forgetting,
}

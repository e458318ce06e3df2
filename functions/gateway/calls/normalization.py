r"""Reads arguments as their client meant them, by the schema that the tool publishes.

Programs between a model and this server fill in null or an empty text for what the model left out,
write lists and objects as JSON in a text, and add arguments of their own:

    {"limit": "5", "cursor": "", "filters": "{\"tags\": \"bread\", \"author\": null}"}

is read as `{"limit": 5, "filters": {"tags": ["bread"]}}`. A value is changed only where it would be
invalid and can mean one thing; what could mean two is left for the tool to refuse.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from shared.runtime.schemas import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from collections.abc import Collection

CLIENT_ARGUMENTS: Final = frozenset(
    {
        *("toolCallId", "tool", "sessionId", "action", "chatInput"),  # n8n, from its own nodes
        "wait_for_previous",  # Gemini CLI, for its scheduler
        "task_progress",  # Cline, for its list of steps
        "security_context",  # CrewAI, with the fingerprint of its agent
        "_meta",  # LangChain, beside the arguments in other clients
        "tool_call_description",  # clients that ask the model what it calls the tool for
        "random_string",  # Cursor, for a tool without arguments
    }
)
"""Arguments that clients are known to add by themselves. They are ignored; no tool may have one."""
MAX_PARSED_CHARACTERS: Final = 256 * 1024
"""How much JSON in texts is parsed in one call. It is not counted by the limit on a body's values,
and no tool takes so long a list or object."""
_PYTHON_WORDS: Final = {"True": True, "False": False, "None": None}
_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "array": (list,),
    "object": (dict,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
_SEVERAL_ITEMS: Final = re.compile(r"""[,;|\n"'(){}[\]]""")
"""What may separate or enclose several items in one text."""
_ABSENT: Final = object()


def normalize_arguments(
    arguments: dict[str, Any],
    schema: dict[str, Any],
    *,
    is_read: bool,
    absent_if_empty: Collection[str] = (),
) -> dict[str, Any]:
    """Return the arguments without what counts as absent, and with values of the schema's types.

    Args:
        is_read: Whether the tool only reads. For it, an empty text is a filter that is not set; for
            others, it may be a value to be written where the schema takes a text.
        absent_if_empty: The arguments for which an empty text or list is absent even from a tool
            that writes, as `Tool.absent_if_empty` lists them.
    """
    given = {
        name: value
        for name, value in arguments.items()
        if name not in CLIENT_ARGUMENTS
        and not (name == IDEMPOTENCY_KEY and value == "")  # nobody's key, whatever the tool does
    }
    return _Normalization(absent_if_empty, is_read=is_read).normalize_fields(given, schema)


class _Normalization:
    """The normalization of one call's arguments. It recurses only as deep as the schema does."""

    def __init__(self, absent_if_empty: Collection[str], *, is_read: bool) -> None:
        self._absent_if_empty = absent_if_empty
        self._is_read = is_read
        self._characters_left = MAX_PARSED_CHARACTERS

    def normalize_fields(self, fields: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties", {})
        optional = properties.keys() - schema.get("required", ())
        droppable = optional if self._is_read else optional.intersection(self._absent_if_empty)
        normalized = {
            name: self._normalize(value, properties[name], drops_empty=name in droppable)
            if name in properties
            else value
            for name, value in fields.items()
            # An unknown filter that is not set changes nothing. A tool that writes names it, since
            # an empty value may be what is to be written.
            if name in properties or not self._is_read or value not in (None, "")
        }
        return {name: value for name, value in normalized.items() if value is not _ABSENT}

    def _normalize(self, value: Any, schema: dict[str, Any], *, drops_empty: bool) -> Any:
        """Return the value to use, which may be `_ABSENT`."""
        options = {option.get("type"): option for option in schema.get("anyOf", [schema])}
        if None in options:  # the schema takes anything
            return value
        if isinstance(value, str) and "string" not in options:
            value = self._parse(value, _list_types(options))
        if value == [] and "object" in options and "array" not in options:
            value = {}  # as PHP writes an object without fields
        if value is None:
            return None if "null" in options else _ABSENT
        if value in ("", []) and drops_empty:
            return _ABSENT
        if isinstance(value, dict) and "object" in options:
            return self.normalize_fields(value, options["object"])
        if "array" in options:
            return self._normalize_items(value, options["array"].get("items", {}))
        return value

    def _normalize_items(self, value: Any, item_schema: dict[str, Any]) -> Any:
        """Return the items of a list, or of a single item that stands for a list of one.

        An entry that is null or empty is absent. For a tool that writes, a list of nothing else is
        absent, too: it is not read as an empty one, which may mean that all is to be removed.
        """
        if not isinstance(value, list):
            if not _is_single_item(value, item_schema):
                return value
            value = [value]
        items = [self._normalize(item, item_schema, drops_empty=True) for item in value]
        present_items = [item for item in items if item is not _ABSENT]
        return _ABSENT if value and not present_items and not self._is_read else present_items

    def _parse(self, text: str, types: Collection[str]) -> Any:
        """Return the value of one of these types that a text contains as JSON, or else the text.

        A text of nothing but spaces stands for null. A number may be infinite or a list nested too
        deeply. As elsewhere, `check_arguments` refuses them.
        """
        if not text.strip():
            return None
        if len(text) > self._characters_left:
            return text
        self._characters_left -= len(text)
        try:
            value = json.loads(text, object_pairs_hook=_make_object)
            # Fails for half a surrogate pair, which can be neither stored nor passed on.
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            value = _PYTHON_WORDS.get(text.strip(), text)
        return value if value is None or _has_type(value, types) else text


def _list_types(options: dict[Any, dict[str, Any]]) -> set[str]:
    """Return the types that a value may have; one object may stand for a list of objects."""
    item_type = options.get("array", {}).get("items", {}).get("type")
    return {*options, "object"} if item_type == "object" else {*options}


def _has_type(value: Any, types: Collection[str]) -> bool:
    if isinstance(value, bool):  # which is an int to Python
        return "boolean" in types
    if value == [] and "object" in types:  # which is an object without fields to PHP
        return True
    return any(isinstance(value, _JSON_TYPES.get(name, ())) for name in types)


def _is_single_item(value: Any, item_schema: dict[str, Any]) -> bool:
    match value:
        case str():
            return item_schema.get("type") == "string" and not _SEVERAL_ITEMS.search(value)
        case dict():
            return item_schema.get("type") == "object"
    return False


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object, and refuse a field that is given twice: one of them would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    return fields

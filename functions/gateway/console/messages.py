"""The texts of error pages. The messages of tools are written for models, these for people."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.gateway.oauth.consent_page import to_prose
from shared.core.errors import (
    CarrelError,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PaymentRequired,
    PlatformFault,
    RateLimited,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from shared.runtime.messages import WireError


class ErrorText(NamedTuple):
    """The texts for an error.

    Attributes:
        title: The heading of a page that shows only the error.
    """

    title: str
    sentence: str


_TEXTS: Final[dict[type[CarrelError], ErrorText]] = {
    InvalidInput: ErrorText(
        "That did not work",
        "The address or the form is not valid. Go back, reload, and try again.",
    ),
    NotFound: ErrorText(
        "There is nothing here",
        "There is nothing at this address. It may have been forgotten, or the address is not"
        " complete. Search for it.",
    ),
    Conflict: ErrorText(
        "Somebody else was faster",
        "Somebody else was faster. Reload the page, and try again.",
    ),
    Unauthorized: ErrorText("You are not signed in", "Your sign-in has ended. Sign in again."),
    Forbidden: ErrorText(
        "You may not do this",
        "Your role or your sign-in does not allow this. The operator of this server can change"
        " your role.",
    ),
    PaymentRequired: ErrorText(
        "Your balance does not cover this",
        "Your balance does not cover this. The operator of this server can add to it.",
    ),
    RateLimited: ErrorText(
        "That was too fast",
        "You have reached the limit of what one may do here in a minute.",
    ),
    Unavailable: ErrorText(
        "This does not answer right now", "A part of Carrel does not answer right now."
    ),
    PlatformFault: ErrorText(
        "Something went wrong", "Something went wrong in Carrel, and not by your doing."
    ),
}
NOTHING_SAVED: Final = "Nothing was saved."
_KINDS: Final = {kind.code: kind for kind in _TEXTS}
_EDITED: Final = (
    "Somebody changed this since you opened the page, and nothing was saved. The page shows it as"
    " it is now, and the form what you typed: compare them, and save again."
)
_UNDO_REFUSED: Final = (
    "Nothing was undone, because this has changed since. Only the last change of a text can be"
    " undone."
)
_FORGOTTEN: Final = (
    "This page was forgotten, so it was not saved. An owner can restore it on the page /forgotten."
)
_PAGE_CONFLICTS: Final = {
    "stored": "This page is stored already, and was not replaced.",
    "waiting": "Another version of this page waits to be read. Try again in a few minutes.",
}
"""What a conflict of `save_page` means, by the state of the page."""
_CONFLICTS: Final = {
    "save_note": _EDITED,
    "edit_source": _EDITED,
    "forget": (
        "This cannot be done right now: the source is still being forgotten or restored, is"
        " forgotten itself, or was forgotten too long ago. Restore the source first, or try again"
        " in 15 minutes, when that is complete."
    ),
    "save_link": _FORGOTTEN,
    "save_page": _FORGOTTEN,
    "get_source": "The source changed where this page begins. Open it again from its first page.",
}
"""What a conflict means, for the tools where it is more than that somebody else was faster."""
_FIELDS: Final = {
    "text": "text",
    "title": "title",
    "author": "author",
    "tags": "tags",
    "query": "query",
    "url": "address",
    "page": "page",
    "order": "order",
    "sort": "order",
    "period": "period",
}
"""The arguments that people fill in, and their names in messages."""
_INCOMPLETE: Final = "The address is not complete. Copy it again, or search."
_ADDRESSES: Final = {
    "cursor": "This part of the list is not there any more. Open the list at its beginning.",
    "source_id": _INCOMPLETE,
    "chunk_id": _INCOMPLETE,
    "cluster_id": _INCOMPLETE,
}
"""What is wrong with an address, by the argument that it contains."""
_COUNTS: Final = re.compile(r"(?:Answers|May answer|Passages with each word): .*?\d\.(?: |$)")
_MEANING: Final = re.compile(r"By meaning, texts in [^.]*\. ?|, before you conclude that [^.]*")
_SECRET: Final = re.compile(r"line \d+: ")
"""How `shared.screening` begins the description of a secret in a field."""


def find_kind(error: CarrelError | WireError) -> type[CarrelError]:
    """Return the class of an error by its code: `PlatformFault` for an unknown code."""
    return _KINDS.get(error.code, PlatformFault)


def find_title(error: CarrelError | WireError) -> str:
    """Return the heading of a page that shows only this error."""
    return _TEXTS[find_kind(error)].title


def describe_error(tool: str, error: WireError) -> WireError:
    """Return a tool's error with a message for people."""
    kind = find_kind(error)
    conflict = None
    if kind is Conflict:
        conflict = _PAGE_CONFLICTS.get(error.details.get("state", "")) or _CONFLICTS.get(tool)
    parts = [_describe_fields(tool, error) or conflict or _TEXTS[kind].sentence]
    if error.retry_after is not None:
        parts.append(f"Try again in {max(1, math.ceil(error.retry_after))} s.")
    elif error.code in {RateLimited.code, Unavailable.code}:
        parts.append("Try again in a minute.")
    if call_id := error.details.get("call_id"):
        parts.append(f"If it happens again, tell the operator of this server the number {call_id}.")
    return error.model_copy(update={"message": to_prose(" ".join(parts))})


def describe_refused_undo(error: WireError) -> WireError:
    """Return an undo's error, with a message for undos if it is a conflict."""
    refused = find_kind(error) is Conflict
    return error.model_copy(update={"message": _UNDO_REFUSED}) if refused else error


def describe_result(message: str) -> str:
    """Return the message of a result for people, without the counts by which models judge it."""
    return to_prose(_MEANING.sub("", _COUNTS.sub("", message))).strip()


def _describe_fields(tool: str, error: WireError) -> str | None:
    """Say what is wrong with what a person filled in, or return None if nothing is."""
    if error.code != InvalidInput.code:
        return None
    reads = tool.startswith(("get_", "list_", "search_"))
    for name in _ADDRESSES.keys() & error.details.keys() if reads else ():
        return _ADDRESSES[name]
    sentences = [
        _describe_field(_FIELDS[name], str(problem))
        for path, problem in error.details.items()
        if (name := path.removeprefix("filters.").partition(".")[0]) in _FIELDS
    ]
    if sentences and not reads:
        sentences.insert(0, NOTHING_SAVED)
    return " ".join(sentences) or None


def _describe_field(name: str, problem: str) -> str:
    if _SECRET.match(problem):
        return (
            f"The {name} seems to contain a secret, which others could read: {problem}."
            " Replace it with a placeholder."
        )
    if problem.startswith(("String should ", "Input should ")):  # how pydantic begins
        return f"The {name} {problem.partition(' ')[2]}."
    return f"The {name}: {problem.rstrip('.')}."

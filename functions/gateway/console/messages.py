"""What went wrong, in words for people. The messages of tools are written for models."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from shared.core.errors import (
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

_EDITED: Final = (
    "Somebody changed this since you opened the page, and nothing was saved. The page shows it as"
    " it is now, and the form what you typed: compare them, and save again."
)
_SENTENCES: Final = {
    ("save_note", Conflict.code): _EDITED,
    ("edit_source", Conflict.code): _EDITED,
    ("forget", Conflict.code): (
        "This cannot be done right now: the source is still being forgotten or restored, is"
        " forgotten itself, or its 30 days are over. Restore the source first, or try again in 15"
        " minutes."
    ),
    ("get_source", Conflict.code): (
        "The source changed where this page begins. Open it again from its first page."
    ),
    InvalidInput.code: "The address or the form is not valid. Go back, reload, and try again.",
    NotFound.code: (
        "There is nothing at this address. It may have been forgotten, or the address is not"
        " complete. Search for it."
    ),
    Conflict.code: "Somebody else was faster. Reload the page, and try again.",
    Unauthorized.code: "Your sign-in has ended. Sign in again.",
    Forbidden.code: (
        "Your role or your sign-in does not allow this. The operator of this server can change"
        " your role."
    ),
    PaymentRequired.code: (
        "Your balance does not cover this. The operator of this server can add to it."
    ),
    RateLimited.code: "You have reached the limit of what one may do here in a minute.",
    Unavailable.code: "A part of Carrel does not answer right now.",
    PlatformFault.code: "Something went wrong in Carrel, and not by your doing.",
}
"""A sentence for each code, and for some tools one of their own."""
_FIELDS: Final = frozenset({"text", "title", "author", "tags"})
"""The arguments that people fill in, which forms call the same."""
_SECRET: Final = re.compile(r"line \d+: ")
"""How the places of secrets in a field begin (`shared.screening`)."""


def describe_error(tool: str, error: WireError) -> WireError:
    """Return an error of a tool with a message for people."""
    sentence = _SENTENCES.get((tool, error.code)) or _SENTENCES.get(error.code)
    parts = [_describe_fields(error) or sentence or _SENTENCES[PlatformFault.code]]
    if error.retry_after is not None:
        parts.append(f"Try again in {max(1, math.ceil(error.retry_after))} s.")
    elif error.code in {RateLimited.code, Unavailable.code}:
        parts.append("Try again in a minute.")
    if call_id := error.details.get("call_id"):
        parts.append(f"If it happens again, tell the operator of this server the number {call_id}.")
    return error.model_copy(update={"message": " ".join(parts)})


def _describe_fields(error: WireError) -> str | None:
    """Say what is wrong with the fields of a form, or return None if nothing is."""
    if error.code != InvalidInput.code:
        return None
    problems = []
    for path, problem in error.details.items():
        name = path.partition(".")[0]
        if name in _FIELDS and _SECRET.match(str(problem)):
            problems.append(
                f"The {name} seems to contain a secret, which others could read: {problem}."
                " Replace it by a placeholder."
            )
        elif name in _FIELDS:
            problems.append(f"The {name}: {str(problem).rstrip('.')}.")
    return f"Nothing was saved. {' '.join(problems)}" if problems else None

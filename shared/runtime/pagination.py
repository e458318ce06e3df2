"""Lists a page at a time: opaque cursors, and pages that stay small enough to be read."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter

from shared.core.base64url import from_base64url, to_base64url
from shared.core.dates import ALL_DATES
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from shared.runtime.schemas import Arguments

    ItemT = TypeVar("ItemT", bound=BaseModel)

MAX_BYTES: Final = 40_000
"""What the items of one answer may hold as JSON. Claude Code refuses answers of more than 25,000
tokens; a token is about four bytes of English, and seldom less than two of any script."""

CursorText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=4_000)]
"""A cursor as it is handed out."""

CursorMoment = Annotated[
    int, Field(ge=ALL_DATES.microseconds.start, lt=ALL_DATES.microseconds.stop)
]
"""A moment in a position: microseconds since 1970."""
CursorCount = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A whole number in a position, as large as Firestore takes."""

_FREE: Final = {"cursor", "limit", "detail"}
"""Arguments that may differ from one page to the next."""
_DIGITS: Final = 12
"""Of the hash that a cursor begins with."""


def encode_cursor(args: Arguments, position: Sequence[str | int]) -> str:
    """Where the next page of this call begins; only for a call of the same arguments."""
    text = json.dumps(position, ensure_ascii=False, separators=(",", ":"))
    checked = _digest(args, text) + text
    return to_base64url(checked.encode())


def decode_cursor(args: Arguments, cursor: str | None, shape: TypeAdapter[Any]) -> Any | None:
    """The position that `encode_cursor` wrote; None where there is no cursor: the first page.

    Args:
        args: The arguments of this call.
        cursor: What its caller handed back.
        shape: What the position consists of. Whoever knows our code can make a cursor: what
            Firestore would refuse, or take for a path, has no place in it.

    Raises:
        InvalidInput: It was not written for a call of these arguments, or was changed since.
    """
    if cursor is None:
        return None
    try:
        return shape.validate_json(_position(args, cursor), strict=True)
    except ValueError:
        raise InvalidInput(
            "This cursor is damaged, or belongs to a call with other arguments. Repeat that call's"
            " arguments with its next_cursor, or leave the cursor out to start anew.",
            details={"cursor": "does not belong to these arguments"},
        ) from None


def fit_page(items: Sequence[ItemT]) -> list[ItemT]:
    """As many whole items, from the first, as an answer may hold; at least one."""
    sizes = accumulate(len(item.model_dump_json().encode()) for item in items)
    fit = sum(size <= MAX_BYTES for size in sizes)
    return list(items[: max(fit, 1)])


def _position(args: Arguments, cursor: str) -> str:
    """What a cursor says; nothing, if it is damaged or belongs to a call of other arguments."""
    text = from_base64url(cursor).decode()
    digest, position = text[:_DIGITS], text[_DIGITS:]
    return position if digest == _digest(args, position) else ""


def _digest(args: Arguments, position: str) -> str:
    """What tells a cursor that was copied wrongly, or belongs to another call."""
    call = f"{type(args).__module__}.{type(args).__qualname__}"
    plain = f"{call}{args.model_dump_json(exclude=_FREE)}{position}"
    return hashlib.sha256(plain.encode()).hexdigest()[:_DIGITS]

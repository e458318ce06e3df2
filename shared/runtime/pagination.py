"""Pages of lists: opaque cursors, and a limit on the size of a page."""

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
"""The maximum size of the items of one answer as JSON, in bytes.

Claude Code rejects answers of more than 25,000 tokens. A token is about four bytes of English, and
seldom less than two bytes in any script."""

CursorText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=4_000)]
"""The encoded form of a cursor, which clients pass back unchanged."""

CursorMoment = Annotated[
    int, Field(ge=ALL_DATES.microseconds.start, lt=ALL_DATES.microseconds.stop)
]
"""A moment in a cursor's position, in microseconds since 1970."""
CursorCount = Annotated[int, Field(ge=0, lt=1 << 63)]
"""An integer in a cursor's position, as large as Firestore takes."""

_FREE_ARGUMENTS: Final = {"cursor", "limit", "detail"}
"""The arguments that may differ from one page to the next."""
_DIGEST_LENGTH: Final = 12
"""The number of hash digits at the start of a cursor."""


def encode_cursor(args: Arguments, position: Sequence[str | int]) -> str:
    """Encode where the next page begins, for a call with the same arguments."""
    text = json.dumps(position, ensure_ascii=False, separators=(",", ":"))
    return to_base64url((_compute_digest(args, text) + text).encode())


def decode_cursor(args: Arguments, cursor: str | None, shape: TypeAdapter[Any]) -> Any | None:
    """Decode the position in a cursor, or return None for the first page, which has no cursor.

    Args:
        args: The arguments of this call.
        cursor: The cursor that the caller passed.
        shape: The type of the position. Cursors can be forged, so it must exclude values that
            Firestore would reject or read as a path.

    Raises:
        InvalidInput: The cursor was not made for these arguments, or has been changed.
    """
    if cursor is None:
        return None
    try:
        return shape.validate_json(_decode_position(args, cursor), strict=True)
    except ValueError:
        raise InvalidInput(
            "This cursor is damaged, or belongs to a call with other arguments. Repeat that call's"
            " arguments with its next_cursor, or leave the cursor out to start again.",
            details={"cursor": "does not belong to these arguments"},
        ) from None


def fit_page(items: Sequence[ItemT]) -> list[ItemT]:
    """Return as many of the first items as fit into one answer, but at least one."""
    sizes = accumulate(len(item.model_dump_json().encode()) for item in items)
    fit = sum(size <= MAX_BYTES for size in sizes)
    return list(items[: max(fit, 1)])


def _decode_position(args: Arguments, cursor: str) -> str:
    """Return the position in a cursor, or an empty string if it does not fit the arguments."""
    text = from_base64url(cursor).decode()
    digest = text[:_DIGEST_LENGTH]
    position = text[_DIGEST_LENGTH:]
    return position if digest == _compute_digest(args, position) else ""


def _compute_digest(args: Arguments, position: str) -> str:
    """Hash the tool, its arguments and the position, to detect a cursor of another call."""
    tool = f"{type(args).__module__}.{type(args).__qualname__}"
    content = f"{tool}{args.model_dump_json(exclude=_FREE_ARGUMENTS)}{position}"
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LENGTH]

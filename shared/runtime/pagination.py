"""Pagination of lists: opaque cursors, and limits on the size of a page."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter

from shared.core.base64url import from_base64url, to_base64url
from shared.core.dates import ALL_DATES
from shared.core.errors import InvalidInput
from shared.runtime.schemas import Arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import BaseModel

    ItemT = TypeVar("ItemT", bound=BaseModel)

MAX_PAGE_BYTES: Final = 40_000
"""The maximum total size of a page's items as JSON, in bytes.

Claude Code rejects answers of more than 25,000 tokens. A token is about four bytes of English, and
seldom less than two bytes in any script, so items of this size have at most some 20,000 tokens. The
rest is for the other parts of the answer, which are not measured against this limit."""
BYTES_PER_TOKEN: Final = 3
"""How many bytes of an answer count as one token of `max_tokens`.

English prose has about four bytes per token, JSON about three, and Chinese or Japanese text between
two and three."""
_RESERVED_BYTES: Final = 400
"""The number of bytes of `max_tokens` that are set aside for what every page contains, such as the
names of its fields."""

CursorText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=4_000)]
"""The encoded form of a cursor, which clients pass back unchanged."""

CursorMoment = Annotated[
    int, Field(ge=ALL_DATES.microseconds.start, lt=ALL_DATES.microseconds.stop)
]
"""A timestamp in a cursor's position, in microseconds since 1970."""
CursorCount = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A non-negative integer in a cursor's position, within Firestore's 64-bit range."""

MaxTokens = Annotated[
    int | None,
    Field(ge=100, description="Answer tokens, at least 100."),
]
"""The argument `max_tokens`, the maximum length of an answer.

Items that do not fit are left out. No text is cut, so a page with a single item may be longer."""

_ARGUMENTS_OUTSIDE_DIGEST: Final = {"cursor", "limit", "max_tokens", "detail"}
"""The arguments that may change from page to page, because a cursor's digest ignores them."""
_DIGEST_LENGTH: Final = 12
"""The number of hexadecimal digits of the digest with which a cursor begins."""


class PagedArguments(Arguments):
    """The base class of the arguments of tools that return a list page by page."""

    cursor: CursorText | None = Field(default=None, description="The previous next_cursor.")
    max_tokens: MaxTokens = None


def encode_cursor(args: Arguments, position: Sequence[str | int | None]) -> str:
    """Encode where the next page begins, for a call with the same arguments."""
    text = json.dumps(position, ensure_ascii=False, separators=(",", ":"))
    return to_base64url((_compute_digest(args, text) + text).encode())


def decode_cursor(args: Arguments, cursor: str | None, shape: TypeAdapter[Any]) -> Any | None:
    """Decode the position in a cursor, or return None for the first page, which has no cursor.

    Args:
        shape: The type of the position. Cursors can be forged, so it must exclude values that
            Firestore would reject or interpret as a document path.

    Raises:
        InvalidInput: The cursor was not made for these arguments, or has been changed.
    """
    if cursor is None:
        return None
    try:
        return shape.validate_json(_read_position(args, cursor), strict=True)
    except ValueError:
        raise InvalidInput(
            "This cursor is damaged, or belongs to a call with other arguments. Repeat the original"
            " arguments with their next_cursor, or leave the cursor out to start again.",
            details={"cursor": "does not belong to these arguments"},
        ) from None


def fit_page(
    items: Sequence[ItemT],
    max_tokens: int | None = None,
    *,
    other_parts: Iterable[BaseModel] = (),
    cursor: str | None = None,
    min_items: int = 1,
) -> list[ItemT]:
    """Return as many of the first items as fit into one answer.

    Items are measured as JSON, which some clients give to the model instead of the shorter text.

    Args:
        other_parts: Other parts of the answer, which count against `max_tokens`.
        cursor: This page's cursor, for tools whose cursors grow from page to page. The next cursor
            is assumed to be as long.
        min_items: How many items to return even if they do not fit, so that no page is empty.
    """
    sizes = [_count_bytes(item) for item in items]
    count = count_fitting(sizes, MAX_PAGE_BYTES)
    if max_tokens is not None:
        other_sizes = [len(cursor or ""), *map(_count_bytes, other_parts)]
        budget = compute_byte_budget(max_tokens) - sum(other_sizes)
        count = min(count, count_fitting(sizes, budget))
    return list(items[: max(count, min_items)])


def compute_byte_budget(max_tokens: int) -> int:
    """Return the maximum size of a page's items in UTF-8 bytes, which may be negative."""
    return max_tokens * BYTES_PER_TOKEN - _RESERVED_BYTES


def count_fitting(sizes: Iterable[int], budget: int) -> int:
    """Return how many of the first items fit into a budget of bytes, given the items' sizes."""
    return sum(size <= budget for size in accumulate(sizes))


def _count_bytes(item: BaseModel) -> int:
    return len(item.model_dump_json(exclude_none=True).encode())


def _read_position(args: Arguments, cursor: str) -> str:
    """Return the position in a cursor, as JSON.

    Raises:
        ValueError: The cursor is damaged, or belongs to a call with other arguments.
    """
    text = from_base64url(cursor).decode()
    digest = text[:_DIGEST_LENGTH]
    position = text[_DIGEST_LENGTH:]
    if digest != _compute_digest(args, position):
        raise ValueError("the digest does not match")
    return position


def _compute_digest(args: Arguments, position: str) -> str:
    """Hash the tool, its arguments and the position, to detect a cursor from another call."""
    tool = f"{type(args).__module__}.{type(args).__qualname__}"
    content = f"{tool}{args.model_dump_json(exclude=_ARGUMENTS_OUTSIDE_DIGEST)}{position}"
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LENGTH]

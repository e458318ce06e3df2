"""A cursor encodes the position of the next page, and a page has a limited size in bytes."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from shared.core.errors import InvalidInput
from shared.runtime.pagination import (
    MAX_PAGE_BYTES,
    CursorCount,
    CursorMoment,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result

POSITION = TypeAdapter(tuple[CursorMoment, DocumentId])
ANY_LIST = TypeAdapter(list[Any])
PARTS = st.one_of(st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40))


class In(Arguments):
    query: str = ""
    limit: int = 10
    detail: str = "lean"
    cursor: str | None = None


class OtherIn(Arguments):
    query: str = ""


class Item(Result):
    text: str


def encode_json(value: object) -> str:
    """Return a cursor whose content is this value."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@given(st.lists(PARTS, max_size=5))
def test_a_position_is_decoded_as_it_was_encoded(position: list[Any]) -> None:
    cursor = TypeAdapter(CursorText).validate_python(encode_cursor(In(), position))
    assert decode_cursor(In(), cursor, ANY_LIST) == position
    assert decode_cursor(In(), None, ANY_LIST) is None


def test_the_size_and_detail_of_a_page_may_change() -> None:
    cursor = encode_cursor(In(query="q", limit=1), ["a"])
    args = In(query="q", limit=5, detail="full", cursor=cursor)
    assert decode_cursor(args, cursor, ANY_LIST) == ["a"]


@pytest.mark.parametrize("args", [In(query="other"), OtherIn(query="q")])
def test_a_cursor_of_another_call_is_refused(args: Arguments) -> None:
    with pytest.raises(InvalidInput, match="leave the cursor out") as caught:
        decode_cursor(args, encode_cursor(In(query="q"), ["a"]), ANY_LIST)
    assert "cursor" in caught.value.details


@pytest.mark.parametrize(
    "cursor",
    [
        "a",
        "abcde",
        "____",
        encode_json(7),
        encode_json(None),
        encode_json([]),
        encode_json({}),
        encode_json("text"),
        base64.urlsafe_b64encode(b"[" * 2_900).decode().rstrip("="),
    ],
)
def test_a_damaged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        decode_cursor(In(), cursor, ANY_LIST)


def test_a_cursor_that_was_copied_wrongly_is_refused() -> None:
    cursor = encode_cursor(In(), [-5, "bread-0123456789ab"])
    assert decode_cursor(In(), cursor, POSITION) == (-5, "bread-0123456789ab")
    for index in range(len(cursor)):
        other_character = "A" if cursor[index] != "A" else "B"
        changed_cursor = cursor[:index] + other_character + cursor[index + 1 :]
        cut_cursor = cursor[:index] or "A"
        for invalid_cursor in (changed_cursor, cut_cursor):
            with pytest.raises(InvalidInput, match="damaged"):
                decode_cursor(In(), invalid_cursor, POSITION)


@pytest.mark.parametrize(
    "position",
    [
        *([], ["a"], ["a", 1], [1, "a", 2], [True, "a"], [1.5, "a"], ["1", "a"]),
        *([10**30, "a"], [-(10**30), "a"], [1, ""], [1, "a/b"], [1, "__x__"], [1, "x" * 201]),
    ],
)
def test_a_position_of_another_shape_is_refused(position: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        decode_cursor(In(), encode_cursor(In(), position), POSITION)


@pytest.mark.parametrize("count", [-1, 1 << 63])
def test_a_count_that_firestore_would_refuse_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        decode_cursor(In(), encode_cursor(In(), [count]), TypeAdapter(tuple[CursorCount]))


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ([], 0),
        (["x" * 100] * 50, 50),
        (["x" * 10_000] * 6, 3),
        (["本" * 10_000] * 6, 1),  # the limit counts bytes, not characters
        (["x" * (MAX_PAGE_BYTES + 1), "y"], 1),  # larger than a page
    ],
)
def test_items_beyond_the_limit_are_left_for_the_next_page(texts: list[str], count: int) -> None:
    items = [Item(text=text) for text in texts]
    assert fit_page(items) == items[:count]

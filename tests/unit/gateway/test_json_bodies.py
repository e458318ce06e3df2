"""What is checked in a JSON body before it is parsed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.gateway.body_limits import MAX_VALUES, count_values, has_half_surrogate_pair

TEXTS = st.text(
    st.characters(codec=None, categories=("Cs", "Lu", "So", "Po", "Zs", "Cc")), max_size=20
)


@pytest.mark.parametrize(
    ("body", "is_half"),
    [
        (rb'"A comet\ud83d"', True),
        (rb'"\ude00 comet"', True),
        (rb'"\ud83d\ud83d\ude00"', True),
        (rb'"\uD83D\uDE00"', False),
        (rb'"C:\\ud83d"', False),
        (rb'"\\\ud83d"', True),
        (rb'{"\ud83d": 1}', True),
        (rb'"\ud83d', False),
        (rb'"\ud83d' + b"[" * 100_000, False),
    ],
)
def test_half_a_surrogate_pair_is_found(body: bytes, is_half: bool) -> None:  # noqa: FBT001
    assert is_half == has_half_surrogate_pair(body)


@given(TEXTS)
def test_only_text_that_utf_16_cannot_hold_is_refused(text: str) -> None:
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        is_half = False
    except UnicodeDecodeError:
        is_half = True
    assert is_half == has_half_surrogate_pair(json.dumps([text]).encode())


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=20))
def test_values_are_counted_and_what_stands_in_texts_is_not(value: object) -> None:
    def values(node: object) -> int:
        return 1 + sum(map(values, node)) if isinstance(node, list) else 1

    counted = count_values(json.dumps(value).encode())
    assert values(value) // 2 <= counted <= 2 * values(value)


def test_a_text_is_one_value_whatever_stands_in_it() -> None:
    assert 1 == count_values(json.dumps({"materials": '[{,"\\",[' * 1000}).encode())


def test_a_text_that_never_ends_takes_no_longer() -> None:
    assert 0 == count_values(b'"' + b'\\"' * 2_000_000)
    assert 0 == count_values(b'"' + b'\\"' * 1_000 + b"\\")


@pytest.mark.parametrize("value", [b'"",', b'"a":"b",', b"[],", b"1,"])
def test_millions_of_values_are_too_many(value: bytes) -> None:
    assert count_values(value * 1_000_000) > MAX_VALUES

"""Halves of characters that programs send which cut texts where UTF-16 does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.gateway.json_bodies import may_hold_halves, values_in, well_formed

TEXTS = st.text(
    st.characters(codec=None, categories=("Cs", "Lu", "So", "Po", "Zs", "Cc")), max_size=20
)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        (rb'"A comet\ud83d"', "A comet\ufffd"),
        (rb'"\ude00 comet"', "\ufffd comet"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"C:\\ud83d"', r"C:\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\n\ud83d\n"', "\n\ufffd\n"),
    ],
)
def test_half_a_character_is_taken_for_the_sign_of_what_is_lost(sent: bytes, taken: str) -> None:
    assert taken == json.loads(well_formed(sent))


@given(TEXTS)
def test_whole_text_stays_as_it_is_and_half_of_it_becomes_text(text: str) -> None:
    sent = json.dumps([text]).encode()
    [taken] = json.loads(well_formed(sent))
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert whole == taken
    assert may_hold_halves([sent]) or well_formed(sent) == sent


def test_what_stands_between_two_pieces_is_seen() -> None:
    sent = rb'"A comet\ud83d"'
    for middle in range(len(sent)):
        assert may_hold_halves([sent[:middle], sent[middle:]])
    assert not may_hold_halves([b"\\", b"n", b"\\u00e4"])


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=20))
def test_values_are_counted_and_what_stands_in_texts_is_not(value: object) -> None:
    def values(node: object) -> int:
        return 1 + sum(map(values, node)) if isinstance(node, list) else 1

    counted = values_in(json.dumps(value).encode())
    assert values(value) // 2 <= counted <= 2 * values(value)


def test_a_text_is_one_value_whatever_stands_in_it() -> None:
    assert 1 == values_in(json.dumps({"materials": '[{,"\\",[' * 1000}).encode())


def test_a_text_that_never_ends_takes_no_longer() -> None:
    assert 0 == values_in(b'"' + b'\\"' * 2_000_000)
    assert 0 == values_in(b'"' + b'\\"' * 1_000 + b"\\")

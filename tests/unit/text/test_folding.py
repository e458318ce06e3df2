"""Texts that differ only in their writing fold to one; a sign makes another text."""

from __future__ import annotations

import pytest

from shared.text.folding import fold_text, hash_texts


@pytest.mark.parametrize(
    "text",
    [
        "rye bread keeps",
        "  Rye\tbread\n keeps. ",
        "RYE BREAD\u00a0KEEPS",
        "rye bread keeps。",
    ],
)
def test_spaces_case_and_a_full_stop_fold(text: str) -> None:
    assert fold_text(text) == "rye bread keeps"


def test_ways_to_write_a_character_fold() -> None:
    assert fold_text("Cafe\u0301") == fold_text("caf\u00e9")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("5", "-5"),
        ("C", "C++"),
        ("x", "!x"),
        ("Maße", "Masse"),
        ("5 m²", "5 m2"),
        ("On?", "On!"),
        ("Wait.", "Wait..."),
        ("a b", "ab"),
    ],
)
def test_a_sign_does_not_fold(text: str, other: str) -> None:
    assert fold_text(text) != fold_text(other)


def test_texts_are_hashed_one_by_one() -> None:
    assert hash_texts("Rye.", None) == hash_texts("rye", None)
    hashes = {hash_texts("a", "b"), hash_texts("b", "a"), hash_texts("a b"), hash_texts("a", None)}
    assert len(hashes) == 4

"""Names that somebody may have meant."""

from __future__ import annotations

import pytest

from shared.text.suggestions import nearest_names

AUTHORS = ["Ida Loaf", "Jane Austen", "Donella Meadows", "Dana Meadow", "Ferdinand de Saussure"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("Ida Loav", ["Ida Loaf"]),
        ("loaf", ["Ida Loaf"]),
        ("AUSTEN", ["Jane Austen"]),
        ("Jane Austen Smith", ["Jane Austen"]),
        ("Austen Jane", ["Jane Austen"]),
        ("meadows", ["Donella Meadows", "Dana Meadow"]),
        ("zzz", []),
        ("", []),
    ],
)
def test_the_names_most_like_an_unknown_one_come_best_first(
    wanted: str, expected: list[str]
) -> None:
    assert expected == nearest_names(wanted, AUTHORS)


def test_a_name_of_every_word_beats_one_of_similar_letters() -> None:
    assert ["data science", "date"] == nearest_names("data", ["date", "data science"])


def test_no_more_names_than_asked_for() -> None:
    assert ["tag a", "tag b"] == nearest_names("tag x", ["tag a", "tag b", "tag c"], limit=2)


def test_where_nothing_exists_nothing_is_near() -> None:
    assert [] == nearest_names("anything", [])


def test_a_name_is_returned_as_it_is_written() -> None:
    assert ["Décision"] == nearest_names("décisions", ["Décision"])

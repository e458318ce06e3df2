"""For an unknown name, the nearest known names are suggested."""

import pytest

from shared.text.suggestions import find_nearest_names

AUTHORS = [
    "Gabriel García Márquez",
    "Ida Loaf",
    "Jane Austen",
    "Donella Meadows",
    "Dana Meadow",
    "Ferdinand de Saussure",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Ida Loav", ["Ida Loaf"]),
        ("loaf", ["Ida Loaf"]),
        ("AUSTEN", ["Jane Austen"]),
        ("Jane Austen Smith", ["Jane Austen"]),
        ("Austen Jane", ["Jane Austen"]),
        ("meadows", ["Donella Meadows", "Dana Meadow"]),
        ("Loaf, Ida", ["Ida Loaf"]),
        ("Garcia-Marquez", ["Gabriel García Márquez"]),
        ("zzz", []),
        ("", []),
    ],
)
def test_nearest_names_come_best_first(query: str, expected: list[str]) -> None:
    assert find_nearest_names(query, AUTHORS) == expected


def test_a_name_with_all_words_beats_similar_letters() -> None:
    assert find_nearest_names("data", ["date", "data science"]) == ["data science", "date"]
    assert find_nearest_names("tag x", ["tag a", "tag b", "tag c"], limit=2) == ["tag a", "tag b"]
    assert find_nearest_names("anything", []) == []


def test_a_name_in_another_form_is_suggested_as_it_is_spelled() -> None:
    tags = ["reading_list", "project/beta/hull", "Über-Ich", "🎸", "Décision"]
    names = ["Reading-List", "hull", "uber ich", "🎸", "décisions"]
    assert [find_nearest_names(name, tags) for name in names] == [[tag] for tag in tags]

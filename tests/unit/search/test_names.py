"""The authors whom questions name."""

import pytest

from shared.search.names import find_named_authors
from shared.text.terms import terms

AUTHORS = {
    "Ann Helm": set[str](),
    "Ursula K. Le Guin": set[str](),
    "Tom Wolf and Eva March": set[str](),
    "García Márquez, Gabriel": set[str](),
    "Plato": set[str](),
    "Iris Dahl": {"plato"},
    "村上春樹": set[str](),
    "鲁迅": set[str](),
    "夏目 漱石": set[str](),
    "Ada Vang": set[str](),
    "Dora Vang": set[str](),
    "Seneca": set[str](),
    "Ann Seneca": set[str](),
}
"""Authors, each with words of the questions that a text of theirs has."""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does Ann Helm say?", "Ann Helm"),
        ("helm, ann on anchors", "Ann Helm"),
        ("ANN HELM'S boats", "Ann Helm"),
        ("Ann Helms Boote", "Ann Helm"),
        ("ursula le guin", "Ursula K. Le Guin"),
        ("Eva March on armies", "Tom Wolf and Eva March"),
        ("gabriel garcia marquez", "García Márquez, Gabriel"),
        ("What does Helm say?", "Ann Helm"),
        ("村上春樹の夢", "村上春樹"),
        ("鲁迅说希望是什么", "鲁迅"),
        ("夏目漱石の猫", "夏目 漱石"),
        ("an essay by Le Guin", "Ursula K. Le Guin"),
        ("Helm's boats", "Ann Helm"),
        ("Helm", "Ann Helm"),
        ("Dora Vang on the solar wind", "Dora Vang"),
        # An author has no other name.
        ("Seneca on anger", "Seneca"),
        # Two authors have this surname.
        ("What does Vang say?", None),
        # Another person with the surname of an author.
        ("What does Ida Helm say?", None),
        ("boats by Ida Helm", None),
        ("How do I install a chart with Helm?", None),
        # A text of another author has the word.
        ("What does Plato say?", None),
        ("the helm of a boat", None),
        ("Ann stood at the helm", None),
        ("an army on the march", None),
    ],
)
def test_a_question_names_an_author(question: str, expected: str | None) -> None:
    documents = [(author, words | {*terms(author)}) for author, words in AUTHORS.items()]
    authors = find_named_authors(question, documents)
    assert set(authors) == ({expected} if expected else set())

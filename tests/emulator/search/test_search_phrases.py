"""A phrase in quotation marks lifts the passages that have it."""

import pytest

from functions.tools.knowledge.search_kb.messages import NO_PHRASE
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.runtime.context import Context
from shared.search.phrases import find_phrases
from tests.support.knowledge import store_sources
from tests.support.searches import make_source_of_text, make_source_of_texts


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ('who said "to be or not", and "why not"?', ["to be or not", "why not"]),
        (
            "\u201cone two\u201d \u201ethree four\u201c \u00abfive six\u00bb",
            ["one two", "three four", "five six"],
        ),
        ('"word" " " 5" screen "open', []),
    ],
)
def test_phrases_have_two_words_in_quotation_marks(question: str, expected: list[str]) -> None:
    assert find_phrases(question) == expected


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
async def test_passages_with_the_phrase_come_first(ctx: Context, mode: str) -> None:
    others = [f"storm sail, sail storm, sail and storm {number}" for number in range(40)]
    long_text = (
        "A calm day at sea is rare and long remembered by all. " * 5 + "Storm \u2013\nsails rip."
    )
    await store_sources(
        ctx, make_source_of_texts(others, "others"), make_source_of_text(long_text, "right")
    )
    out = await search_kb(In(query='"storm sails rip"', mode=mode), ctx)
    assert (out.results[0].source_id, out.matches) == ("right", True)
    assert "No passage" not in str(out.message)
    absent = await search_kb(In(query='"rip storm sails"', mode=mode), ctx)
    assert NO_PHRASE.format("rip storm sails") in str(absent.message)


async def test_a_phrase_of_stop_words_is_found_by_meaning(ctx: Context) -> None:
    texts = "To be or not to be, she says.", "Rye bread, she says."
    await store_sources(ctx, *(make_source_of_text(text, text[:2]) for text in texts))
    out = await search_kb(In(query='"to be or not"'), ctx)
    assert (out.results[0].source_id, out.matches) == ("To", True)

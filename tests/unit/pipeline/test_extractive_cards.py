"""A card of a chunk, made without a language model, has sentences of its text, none repeated.

A card is a summary, and takeaways if there is room for them.
"""

import pytest

from benchmarks.dataset import read_sources
from functions.jobs.cards.extractive import (
    CARD_SHARE,
    MAX_SUMMARY,
    MAX_TAKEAWAYS,
    MIN_TEXT,
    make_extractive_card,
)
from infra.local.local_database import SAMPLE
from shared.text.sentences import split_sentences
from tests.support.knowledge import chunk_source

DOUGHS = {
    "Rye": "bowl",
    "Wheat": "basket",
    "Oat": "cellar",
    "Corn": "cupboard",
    "Rice": "fridge",
    "Spelt": "tin",
    "Barley": "cloth",
    "Millet": "crock",
}
LONG_TEXT = " ".join(
    f"{grain} dough rests for {n} hours in a {place} before its baker shapes a loaf."
    for n, (grain, place) in enumerate(DOUGHS.items())
)
BACKGROUND = (
    "For a year we baked our bread on Mondays and sold what was left of it on Fridays."
    " People often asked whether bread can be kept for a whole week. However, nobody measured it."
)
FINDING = "We found that bread in linen stays soft two days longer than bread in plastic."


@pytest.mark.parametrize("text", ["", "- Knead it.\n- Let it rise.", LONG_TEXT[: MIN_TEXT - 1]])
def test_a_short_text_needs_no_card(text: str) -> None:
    assert make_extractive_card(text) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG_TEXT[:420]}\n\n```\n{'x = 1 ' * 200}\n```",
        "- rye bread with seeds\n" * 40,
        "word " * 1_000,
        "x" * 5_000,
        "字" * 3_000 + "。",
        "Yes. " * 300,
        " ".join(f"This is why it needs {n} hours of rest in the bowl." for n in range(20)),
    ],
)
def test_a_text_without_statements_that_stand_alone_has_no_card(text: str) -> None:
    assert make_extractive_card(text) is None


@pytest.mark.parametrize(("text", "takeaways"), [(LONG_TEXT, 3), (f"{LONG_TEXT} {LONG_TEXT}", 5)])
def test_a_card_has_sentences_of_its_text_in_order(text: str, takeaways: int) -> None:
    card = make_extractive_card(text)
    assert card is not None
    sentences = list(dict.fromkeys(split_sentences(text)))
    assert card.summary in sentences
    assert [line for line in sentences if line in card.takeaways] == list(card.takeaways)
    assert len(card.takeaways) == takeaways
    assert card.summary not in card.takeaways


def test_a_finding_comes_before_background() -> None:
    card = make_extractive_card(
        f"{BACKGROUND} {FINDING} This holds in winter and summer. {LONG_TEXT[:160]}."
    )
    assert card is not None
    assert card.summary == f"{FINDING} This holds in winter and summer."


@pytest.mark.parametrize(
    "beginning",
    [
        "However, a",
        "In this case, a",
        "Because they rest, a",
        "Deshalb ist a",
        "Cela dit, a",
        "但是",
    ],
)
def test_a_card_does_not_begin_with_a_word_that_points_back(beginning: str) -> None:
    line = f"{beginning} rye dough rests for many hours in a bowl before its baker shapes a loaf."
    card = make_extractive_card(f"{line} {LONG_TEXT}", "Rye dough rests in a bowl")
    assert card is not None
    assert line not in {card.summary, *card.takeaways}


def test_cards_of_the_sample_have_at_most_half_of_their_texts() -> None:
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in chunk_source(source).chunks]
    cards = [(chunk, make_extractive_card(chunk.content, chunk.title)) for chunk in chunks]
    for chunk, card in cards:
        if card:
            assert len(card.summary) <= MAX_SUMMARY
            assert len(card.takeaways) <= MAX_TAKEAWAYS
            assert not [line for line in card.takeaways if line in card.summary]
            length = len(card.summary) + sum(map(len, card.takeaways))
            assert length <= CARD_SHARE * len(chunk.content)
    assert sum(card is not None for _, card in cards) == 73

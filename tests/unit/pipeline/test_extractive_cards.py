"""A card of a chunk, made without a language model, has sentences of its text, none repeated.

A card is a summary, and takeaways if the text is longer than the summary.
"""

import pytest

from benchmarks.dataset import read_sources
from functions.jobs.cards.extractive import MAX_SUMMARY, MAX_TAKEAWAY, make_extractive_card
from infra.local.local_database import SAMPLE
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.text.sentences import split_sentences
from tests.support.knowledge import chunk_source

LONG_TEXT = " ".join(
    f"{word} dough rests for {n} hours before it is baked with care."
    for n, word in enumerate(["Rye", "Wheat", "Oat", "Corn", "Rice", "Spelt", "Barley", "Millet"])
)
SHORT_TEXT = (
    f"The dough rests {'very ' * 40}long before it is baked."
    f" The oven heats {'very ' * 40}slowly until it is hot."
)


def test_a_text_as_short_as_a_summary_is_its_own_card() -> None:
    assert make_extractive_card("- Knead it.\n- Let it rise.") == KnowledgeCard(
        "Knead it. Let it rise."
    )


@pytest.mark.parametrize("text", ["", "```\nx = 1\n```", "| a | b |\n|---|---|", "42 + 1"])
def test_a_text_without_a_sentence_has_no_card(text: str) -> None:
    assert make_extractive_card(text) is None


@pytest.mark.parametrize(
    ("text", "count"), [(LONG_TEXT, 3), (SHORT_TEXT, 1), (f"{LONG_TEXT} {LONG_TEXT}", 3)]
)
def test_a_card_has_sentences_of_its_text_in_order(text: str, count: int) -> None:
    card = make_extractive_card(text)
    assert card is not None
    all_sentences = list(dict.fromkeys(split_sentences(text)))
    summary_lines = [line for line in all_sentences if line in card.summary]
    assert " ".join(summary_lines) == card.summary
    assert [line for line in all_sentences if line in card.takeaways] == list(card.takeaways)
    assert len(card.takeaways) == count
    assert not set(summary_lines) & set(card.takeaways)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 1_000,
        "x" * 5_000,
        "字" * 3_000 + "。",
        "Yes. " * 300,
        f"Dough rises. {'y' * 600} z. Bread is baked from dough that rises.",
    ],
)
def test_overlong_sentences_are_cut_to_the_limits_of_a_card(text: str) -> None:
    card = make_extractive_card(text, "Title")
    assert card is not None
    assert 0 < len(card.summary) <= MAX_SUMMARY
    assert all(0 < len(line) <= MAX_TAKEAWAY for line in card.takeaways)


def test_takeaways_of_the_sample_do_not_repeat_the_summary() -> None:
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in chunk_source(source).chunks]
    for chunk in chunks:
        card = make_extractive_card(chunk.content, chunk.title)
        assert card is not None
        assert len(card.summary) <= MAX_SUMMARY
        assert len(card.takeaways) <= 5
        assert not [line for line in card.takeaways if line in card.summary]
        is_long = len(" ".join(split_sentences(chunk.content))) > MAX_SUMMARY
        assert bool(card.takeaways) == is_long

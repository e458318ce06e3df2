"""A knowledge card is shown with its passage if it says more than the passage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.knowledge.knowledge_card import KnowledgeCard
from tests.support.knowledge import BAKING, chunk_source

CHUNK = chunk_source(BAKING).chunks[0]


@pytest.mark.parametrize("summary", [CHUNK.content, CHUNK.content.upper().rstrip(".")])
def test_a_card_that_repeats_the_text_is_not_shown(summary: str) -> None:
    chunk = replace(CHUNK, knowledge_card=KnowledgeCard(summary))
    assert chunk.shown_card is None
    assert chunk.summary is None
    assert chunk.knowledge_card is not None


@pytest.mark.parametrize(
    "card", [KnowledgeCard("Knead."), KnowledgeCard(CHUNK.content, ("Let it rise.",))]
)
def test_a_card_that_says_more_is_shown(card: KnowledgeCard) -> None:
    chunk = replace(CHUNK, knowledge_card=card)
    assert chunk.shown_card == card
    assert chunk.summary == card.summary

"""Passages for the job `cards`, and the cards that a fake language model writes about them.

A card is a summary of a passage, with takeaways.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from google.oauth2.credentials import Credentials

from shared.ai.vertex_generation import VertexGenerator
from shared.core.circuit_breaker import CircuitBreaker
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.knowledge.cards import STEP, build_card_change
from shared.knowledge.chunk_repository import build_step_done
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from tests.support.fakes.vertex import MODEL, FakeVertex
from tests.support.stored_documents import read_chunks


def make_note_text(number: int) -> str:
    """Return a passage that is long enough for a card by the model."""
    return (
        f"Dough number {number} rests through the night. It is folded three times before it rests,"
        " and its baker sleeps well. In the morning it is shaped, scored and baked in a hot oven"
        f" with steam. Loaf number {number} is cut when it is cold. The crust sings for minutes"
        " after the loaf has left the oven, and a knife that is too early tears the crumb."
        " Leftover slices are toasted on the next day, or dried for many dumplings and soups."
    )


def make_source_of_notes(count: int) -> Source:
    """Return a source with this many passages."""
    sections = tuple(Section(make_note_text(number)) for number in range(count))
    return Source("notes", "Notes on Bread", sections=sections)


def make_card_reply(text: str) -> dict[str, object]:
    """Return a valid card about a passage, made of its sentences.

    The text is the one that the model receives: the source's title, an empty line, the passage.
    """
    title, _, content = text.partition("\n\n")
    first_sentence, *further_sentences = content.split(". ")
    return {"summary": f"{title}: {first_sentence}.", "takeaways": further_sentences[:3]}


def make_generator(server: FakeVertex, time_limit: float = 50) -> VertexGenerator:
    """Return a client of the fake Vertex AI, with a time limit in seconds."""
    return VertexGenerator(
        project="p",
        location="europe-west1",
        model=MODEL,
        credentials=Credentials(token="t"),
        base_url=server.base_url,
        time_limit=time_limit,
        breaker=CircuitBreaker("Vertex AI", pause=0),
    )


async def save_cards(
    ctx: Context, cards: Mapping[str, KnowledgeCard], model: str, now: datetime
) -> None:
    """Store cards by chunk id, as the job `cards` would."""
    changes = {name: build_card_change(card, model, now) for name, card in cards.items()}
    await ctx.database.commit(
        [
            Update(Reference("chunks", name), change | build_step_done(STEP))
            for name, change in changes.items()
        ]
    )


async def read_cards(ctx: Context) -> dict[str, Any]:
    """Return the stored card of each chunk that has one, by the chunk's text."""
    return {
        chunk["content"]: chunk["knowledge_card"]
        for chunk in (await read_chunks(ctx)).values()
        if "knowledge_card" in chunk
    }

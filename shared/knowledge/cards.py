"""Stores knowledge cards: the field `knowledge_card` of `chunks/{chunk_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import split
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Write, put_if_unchanged
from shared.knowledge import chunk_repository
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.knowledge.knowledge_card import KnowledgeCard

STEP: Final = "card"
"""The step that is pending on a chunk until it has a card."""
BY_HAND: Final = "sample"
"""The `model` of cards that a person wrote, such as those of the sample knowledge base. No job
replaces them."""
BATCH_SIZE: Final = 200
"""The number of chunks that one round trip reads, and whose cards one commit writes."""
_CARD_FIELDS: Final = ("knowledge_card", "deleted_at", f"pending.{STEP}")
_RENEWAL_FIELDS: Final = ("knowledge_card.model", "content", f"pending.{STEP}")


class Cards:
    """Stores knowledge cards with their chunks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, cards: Mapping[str, KnowledgeCard], model: str, now: datetime) -> int:
        """Store cards, and complete the step `card` of their chunks.

        A chunk that is deleted, or that changes in the meantime, is skipped. A card that is stored
        already costs one read and no write.

        Args:
            model: The author of the cards: a model, or BY_HAND.

        Returns:
            The number of chunks written.
        """
        written = 0
        for chunk_ids in split(list(cards), BATCH_SIZE):
            stored = await self._load_stored(chunk_ids)
            writes = list(_build_card_writes(stored, cards, model, now))
            written += await self._database.commit_skipping_conflicts(writes)
        return written

    async def renew(self, maker: Callable[[str], str], now: datetime) -> int:
        """Make the step `card` pending again for all chunks whose card another model made.

        Cards that a person wrote stay. Reads every chunk, so it is only for owners who have changed
        the model.

        Args:
            maker: Returns the model that now makes the card of a text.
            now: The time from which the step is due.

        Returns:
            The number of chunks.
        """
        count = 0
        async for page in self._database.iterate(
            Query(CHUNKS).order_by("__name__").select(_RENEWAL_FIELDS), BATCH_SIZE
        ):
            outdated = [snapshot for snapshot in page if _is_outdated(snapshot, maker)]
            change = chunk_repository.build_step_pending(STEP, now)
            count += await self._database.commit_skipping_conflicts(
                [put_if_unchanged(snapshot, change) for snapshot in outdated]
            )
        return count

    async def _load_stored(self, chunk_ids: Sequence[str]) -> list[Document]:
        references = [Reference(CHUNKS, chunk_id) for chunk_id in chunk_ids]
        return await self._database.get_all(references, _CARD_FIELDS)


def build_card_change(card: KnowledgeCard | None, model: str, now: datetime) -> dict[str, Any]:
    """Build the update of a chunk that gets this card. The chunk is indexed again.

    Args:
        card: The card, or None if the text is not suitable for one.
    """
    fields = (
        {**_to_card_fields(card), "model": model, "generated_at": now} if card else DELETE_FIELD
    )
    return {"knowledge_card": fields, **chunk_repository.build_step_pending("index", now)}


def _build_card_writes(
    stored: Sequence[Document],
    cards: Mapping[str, KnowledgeCard],
    model: str,
    now: datetime,
) -> Iterator[Write]:
    for snapshot in stored:
        data = snapshot.fields
        if "deleted_at" in data:
            continue
        stored_card, card = _get_card(snapshot), cards[snapshot.id]
        if any(stored_card.get(name) != value for name, value in _to_card_fields(card).items()):
            yield put_if_unchanged(
                snapshot,
                build_card_change(card, model, now) | chunk_repository.build_step_done(STEP),
            )
        elif STEP in data.get("pending", {}):
            yield put_if_unchanged(snapshot, chunk_repository.build_step_done(STEP))


def _is_outdated(snapshot: Document, maker: Callable[[str], str]) -> bool:
    """Return whether another model made a chunk's card, and the step is not pending yet."""
    data, made_by = snapshot.fields, _get_card(snapshot).get("model")
    if made_by in {None, BY_HAND} or STEP in data.get("pending", {}):
        return False
    return bool(made_by != maker(data["content"]))


def _to_card_fields(card: KnowledgeCard) -> dict[str, Any]:
    return {"summary": card.summary, "takeaways": list(card.takeaways)}


def _get_card(snapshot: Document) -> dict[str, Any]:
    card: dict[str, Any] = snapshot.fields.get("knowledge_card") or {}
    return card

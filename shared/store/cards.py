"""`chunks/{chunk_id}.knowledge_card`: what a chunk says, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption

from shared.store.chunk_documents import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import DocumentSnapshot

    from shared.domain.chunk import KnowledgeCard
    from shared.store.database import Database, Write

BLOCK: Final = 200
"""How many cards are compared at once and written in one commit."""


class Cards:
    """Puts knowledge cards on chunks."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def save(self, cards: Mapping[str, KnowledgeCard], model: str, now: datetime) -> int:
        """Put on each chunk its card, where it has another or none, and have it indexed again.

        A chunk that is gone, or changes meanwhile, is passed over. What a chunk has already costs
        one read and no write.

        Args:
            cards: Chunk id to card.
            model: What wrote them.
            now: The time to stamp on them.

        Returns:
            How many cards were written.
        """
        chunk_ids = list(cards)
        written = 0
        for start in range(0, len(chunk_ids), BLOCK):
            stored = await self._stored(chunk_ids[start : start + BLOCK])
            writes = list(_writes(stored, cards, model, now))
            written += await self._database.commit_what_holds(writes)
        return written

    async def _stored(self, chunk_ids: Sequence[str]) -> list[DocumentSnapshot[Any]]:
        references = [self._database.document(CHUNKS, chunk_id) for chunk_id in chunk_ids]
        return await self._database.get_all(references, ["knowledge_card", "deleted_at"])


def _writes(
    stored: Sequence[DocumentSnapshot[Any]],
    cards: Mapping[str, KnowledgeCard],
    model: str,
    now: datetime,
) -> Iterator[Write]:
    for snapshot in stored:
        data = snapshot.to_dict() or {}
        card = _document(cards[snapshot.id])
        present = data.get("knowledge_card") or {}
        if "deleted_at" not in data and any(present.get(name) != card[name] for name in card):
            made = {"model": model, "generated_at": now}
            yield _update(snapshot, {"knowledge_card": card | made, "pending.index": now})


def _document(card: KnowledgeCard) -> dict[str, Any]:
    return {"summary": card.summary, "takeaways": list(card.takeaways)}


def _update(snapshot: DocumentSnapshot[Any], change: dict[str, Any]) -> Write:
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.update(snapshot.reference, change, option)

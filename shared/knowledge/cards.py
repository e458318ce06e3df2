"""`chunks/{chunk_id}.knowledge_card`: what a chunk says, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption

from shared.knowledge import chunk_repository as documents
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.knowledge.chunk import KnowledgeCard

STEP: Final = "card"
"""What a chunk waits for until it has one."""
BY_HAND: Final = "sample"
"""What cards are marked with that a person wrote for the sample: no job makes them anew."""
BLOCK: Final = 200
"""How many cards are compared at once and written in one commit."""
_READ: Final = ("knowledge_card", "deleted_at", f"pending.{STEP}")
_RENEWED_BY: Final = ("knowledge_card.model", "content", f"pending.{STEP}")


class Cards:
    """Puts knowledge cards on chunks."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def save(self, cards: Mapping[str, KnowledgeCard], model: str, now: datetime) -> int:
        """Put on each chunk its card, where it has another or none; no job then makes it one.

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
            written += await self._database.commit_skipping_conflicts(writes)
        return written

    async def renew(self, maker: Callable[[str], str], now: datetime) -> int:
        """Let all chunks wait for another card whose card was made by another maker than now.

        Cards that a person wrote stay. It reads every chunk: whoever changes the model asks for it
        once.

        Args:
            maker: What would make the card of a content now: the name it marks cards with.
            now: From when on they wait.

        Returns:
            How many chunks wait.
        """
        waiting = 0
        last: DocumentSnapshot[Any] | None = None
        while page := await self._database.find(page_query(self._database.client, last)):
            old = [each for each in page if _is_outdated(each, maker)]
            change = documents.step_pending(STEP, now)
            waiting += await self._database.commit_skipping_conflicts(
                [_update(each, change) for each in old]
            )
            last = page[-1]
        return waiting

    async def _stored(self, chunk_ids: Sequence[str]) -> list[DocumentSnapshot[Any]]:
        references = [self._database.document(CHUNKS, chunk_id) for chunk_id in chunk_ids]
        return await self._database.get_all(references, _READ)


def card_change(card: KnowledgeCard | None, model: str, now: datetime) -> dict[str, Any]:
    """The fields that a chunk gets with its card, or without one; it is then indexed again.

    Args:
        card: The card; None where there is none to make.
        model: What made it.
        now: The time to stamp on it.
    """
    fields = {**_said(card), "model": model, "generated_at": now} if card else DELETE_FIELD
    return {"knowledge_card": fields, **documents.step_pending("index", now)}


def page_query(client: AsyncClient, last: DocumentSnapshot[Any] | None) -> AsyncQuery:
    """A page of all chunks, by their ids."""
    query = client.collection(CHUNKS).order_by("__name__").select(_RENEWED_BY)
    return (query.start_after(last) if last else query).limit(BLOCK)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield page_query(client, None)


def _writes(
    stored: Sequence[DocumentSnapshot[Any]],
    cards: Mapping[str, KnowledgeCard],
    model: str,
    now: datetime,
) -> Iterator[Write]:
    for snapshot in stored:
        data = snapshot.to_dict() or {}
        if "deleted_at" in data:
            continue
        present, card = _card(snapshot), cards[snapshot.id]
        if any(present.get(name) != said for name, said in _said(card).items()):
            yield _update(snapshot, card_change(card, model, now) | documents.step_done(STEP))
        elif STEP in data.get("pending", {}):
            yield _update(snapshot, documents.step_done(STEP))


def _is_outdated(snapshot: DocumentSnapshot[Any], maker: Callable[[str], str]) -> bool:
    """Whether a chunk has a card that another would make now, and does not wait for that yet."""
    data, made_by = snapshot.to_dict() or {}, _card(snapshot).get("model")
    if made_by in {None, BY_HAND} or STEP in data.get("pending", {}):
        return False
    return bool(made_by != maker(data["content"]))


def _said(card: KnowledgeCard) -> dict[str, Any]:
    return {"summary": card.summary, "takeaways": list(card.takeaways)}


def _card(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    found: dict[str, Any] = (snapshot.to_dict() or {}).get("knowledge_card") or {}
    return found


def _update(snapshot: DocumentSnapshot[Any], change: dict[str, Any]) -> Write:
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.update(snapshot.reference, change, option)

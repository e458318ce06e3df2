"""Stores knowledge cards: the field `knowledge_card` of `chunks/{chunk_id}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import put_if_unchanged
from shared.knowledge import chunk_repository
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document
    from shared.knowledge.knowledge_card import KnowledgeCard

STEP: Final = "card"
"""The step that is pending on a chunk until it has a card."""
BY_HAND: Final = "sample"
"""The `model` of cards that a person wrote, such as those of the sample knowledge base. No job
replaces them."""
BATCH_SIZE: Final = 200
"""The number of chunks that one round trip reads."""
_RENEWAL_FIELDS: Final = ("knowledge_card.model", "content", "deleted_at", f"pending.{STEP}")


class Cards:
    """Stores knowledge cards with their chunks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def renew(self, maker: Callable[[str], str | None], now: datetime) -> int:
        """Make the step `card` pending again for all chunks whose card another model would make.

        Cards that a person wrote stay. Reads every chunk, so it is only for owners who have changed
        the model.

        Args:
            maker: Returns the model that now makes the card of a text, or None for no card.
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


def build_card_change(card: KnowledgeCard | None, model: str, now: datetime) -> dict[str, Any]:
    """Build the update of a chunk that gets this card. The chunk is indexed again.

    Args:
        card: The card, or None if the text is not suitable for one.
        model: The author of the card: a model, or BY_HAND.
        now: The time.
    """
    fields = (
        {
            "summary": card.summary,
            "takeaways": list(card.takeaways),
            "model": model,
            "generated_at": now,
        }
        if card
        else DELETE_FIELD
    )
    return {"knowledge_card": fields, **chunk_repository.build_step_pending("index", now)}


def _is_outdated(snapshot: Document, maker: Callable[[str], str | None]) -> bool:
    """Return whether another model would make a chunk's card, and the step is not pending yet."""
    data = snapshot.fields
    made_by = (data.get("knowledge_card") or {}).get("model")
    if made_by == BY_HAND or "deleted_at" in data or STEP in data.get("pending", {}):
        return False
    return bool(made_by != maker(data["content"]))

"""Forgetting: moving chunks with their extractions to `forgotten/{chunk_id}`.

Live documents have no field that says whether they are forgotten, because every vector query would
have to filter by it. Instead, a forgotten chunk is moved. What remains of it in `chunks` is what
remains of a deleted chunk, and the index job removes it from the postings. Its extractions are
deleted in the commit that moves it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.extractions.groups import COLLECTION as EXTRACTIONS
from shared.extractions.groups import ExtractionGroups
from shared.firestore.documents import Document, Reference
from shared.firestore.retention import PURGE_AT
from shared.firestore.values import ArrayUnion, Increment
from shared.firestore.writes import Set, Write, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.forgotten_chunks import COLLECTION, RESTORABLE_SOURCES, get_extraction_ids
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import ForgottenSource
from shared.knowledge.map_repository import Maps
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import READ_AGAIN, REWRITE
from shared.writer.chunk_changes import build_removal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Who forgets, when and why.

    Attributes:
        missing: Whether ingest forgets a source because its origin no longer has it, until the
            origin has it again.
    """

    user_id: str
    reason: str | None
    now: datetime
    missing: bool = False
    client: str | None = None

    def build_fields(self) -> dict[str, Any]:
        """Build the stored fields, with the time until which it can be restored."""
        return {
            "forgotten_at": self.now,
            "forgotten_by": self.user_id,
            "forgotten_with": self.client,
            "reason": self.reason,
            PURGE_AT: RESTORABLE_SOURCES.compute_purge_at(self.now),
        }


class Forgetting:
    """Moves chunks to where nothing reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_chunk(self, chunk_id: str) -> Document | None:
        """Load a chunk with all its fields, or None. Costs one round trip."""
        snapshot = await self._database.get(Reference(CHUNKS, chunk_id))
        return snapshot if "content" in snapshot.fields else None

    async def load_source(self, source_id: str) -> Document | None:
        """Load a source with all its fields, or None. Costs one round trip."""
        snapshot = await self._database.get(Reference(SOURCES, source_id))
        return snapshot if snapshot.exists else None

    async def build_keep_writes(
        self, chunk_ids: Sequence[str], forgetter: Forgetter
    ) -> dict[str, Write]:
        """Build the writes that keep copies of chunks that ingest is about to delete, by chunk id.

        Ingest stores such a chunk again if its origin has it again. Costs two round trips.
        """
        chunks = await self._database.get_all(
            [Reference(CHUNKS, chunk_id) for chunk_id in chunk_ids]
        )
        extractions = await self._load_extractions(chunks)
        record = forgetter.build_fields() | {"missing": True}
        return {chunk.id: _build_forgotten_chunk(chunk, record, extractions) for chunk in chunks}

    async def build_forget_writes(
        self, chunk: Document, source: Document | None, forgetter: Forgetter
    ) -> list[Write]:
        """Build the writes that forget a single chunk. Costs at most three round trips.

        Args:
            source: Its source, which has other chunks, or None if it does not exist.
        """
        chunk_ids = ArrayUnion([chunk.id])
        record = Reference(FORGOTTEN_SOURCES, chunk.get("source_id"))
        update = {"chunk_count": Increment(-1)} | READ_AGAIN | REWRITE
        return [
            *await self.build_move_writes([chunk], forgetter.build_fields(), forgetter.now),
            *([put_if_unchanged(source, update)] if source else []),
            Set(record, {"chunk_ids": chunk_ids}, merge=True),
        ]

    async def build_move_writes(
        self, chunks: Sequence[Document], record: Mapping[str, Any], now: datetime
    ) -> list[Write]:
        """Build the writes that move chunks with their extractions. Costs up to three round trips.

        The writes also remove the chunks' points from the map, because the ids of chunks contain
        titles, which no tool may show any longer.

        Args:
            record: The fields that say who forgot them, or with which source they were forgotten.
        """
        extractions, point_removals = await asyncio.gather(
            self._load_extractions(chunks),
            Maps(self._database).build_removal_writes([chunk.id for chunk in chunks]),
        )
        writes: list[Write] = []
        for chunk in chunks:
            writes.append(_build_forgotten_chunk(chunk, record, extractions))
            writes.append(build_removal(chunk, now))
        groups = ExtractionGroups(self._database)
        return [*writes, *await groups.build_writes(extractions.values(), {}), *point_removals]

    async def _load_extractions(self, chunks: Sequence[Document]) -> dict[str, Document]:
        """Load the extractions of chunks with all fields, by id. Costs one round trip."""
        references = [
            Reference(EXTRACTIONS, name)
            for chunk in chunks
            for name in get_extraction_ids(chunk.fields)
        ]
        return {document.id: document for document in await self._database.get_all(references)}


def _build_forgotten_chunk(
    chunk: Document, record: Mapping[str, Any], extractions: Mapping[str, Document]
) -> Write:
    stored = {
        name: extractions[name].fields
        for name in get_extraction_ids(chunk.fields)
        if name in extractions
    }
    contents = {"document": chunk.fields, "extractions": stored}
    return Set(Reference(COLLECTION, chunk.id), {**record, **contents})


def build_keep_forgotten_write(
    record: ForgottenSource, snapshot: Document, forgetter: Forgetter
) -> Write:
    """Build the write that keeps a missing source forgotten even if its origin has it again.

    Args:
        snapshot: The document of that record.
        forgetter: Who forgets the source. The time to restore it begins again, unless its text is
            deleted already.
    """
    expiry = forgetter.build_fields() if record.document else {}
    return put_if_unchanged(snapshot, {"missing": False} | expiry)

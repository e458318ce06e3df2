"""Editing a source: its document first, and then its chunks, which repeat its fields.

The own tags of a single chunk are edited in one commit. The job then collects the source's facets
again.

The commit that changes the source also sets its field `rewriting`, and rewrites the first chunks.
The index job rewrites the other chunks, and then deletes the field. Because the job compares every
chunk with the source, the next run completes one that was killed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Write, put_if_unchanged
from shared.index.facets import Kind, make_named_facet, make_path_facets
from shared.knowledge import chunk_repository
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import of_source_query
from shared.knowledge.overrides import apply_source_fields
from shared.knowledge.source_repository import (
    COLLECTION as SOURCES,
)
from shared.knowledge.source_repository import (
    MOVING,
    READ_AGAIN,
    REWRITE,
    build_edited_fields,
    make_title_key,
    to_source,
)
from shared.writer.chunk_changes import STORED_FIELDS, plan_updates
from shared.writer.chunked_source import collect_source_facets
from shared.writer.commits import MAX_CHANGES, Change, split_commits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source_repository import StoredSource


@dataclass(frozen=True, slots=True)
class EditableSource:
    """A source with its first chunks, or with one chunk to edit, at the time of a read.

    Attributes:
        is_moving: Whether it is being forgotten or restored.
        snapshot: Its document. A write fails if the document has changed since.
        chunks: The documents of these chunks. A write fails if one has changed since.
    """

    source: StoredSource
    saved_by: str | None
    is_moving: bool
    snapshot: Document
    chunks: list[Document]


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """An edited source whose chunks are rewritten."""

    source: StoredSource
    now: datetime
    is_note: bool

    def build_changes(self, chunks: Iterable[Document]) -> Iterator[Change]:
        """Yield a change for each of these chunks that differs from the source."""
        stored = {document.id: document for document in chunks}
        rewritten = (self.rewrite(_to_chunk(document)) for document in stored.values())
        return plan_updates(stored, rewritten, self.now)

    def rewrite(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its source's fields. Chunks of a note have no tags of their own."""
        if self.is_note:
            source = self.source
            return replace(
                chunk, title=source.title, tags=source.tags, saved_with=source.saved_with
            )
        return apply_source_fields(chunk, self.source, self.source.origin_values or {})


class SourceEditing:
    """Loads sources to edit, and writes the edits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, source_id: str, chunk_id: str | None = None) -> EditableSource | None:
        """Load a source with its first chunks or with this chunk, or None. Costs one round trip."""
        reference = Reference(SOURCES, source_id)
        snapshot, chunks = await asyncio.gather(
            self._database.get(reference),
            self._load_chunk(source_id, chunk_id) if chunk_id else self._load_page(source_id, 1),
        )
        if not snapshot.exists:
            return None
        data = snapshot.fields
        return EditableSource(
            to_source(snapshot), data.get("saved_by"), MOVING in data, snapshot, chunks
        )

    def build_writes(
        self, stored: EditableSource, edited: StoredSource, now: datetime
    ) -> list[Write]:
        """Build the writes that replace the fields of a source, and those of its first chunks.

        They also make the next ingest compare all chunks, in case an ingest is running now.
        """
        data = build_edited_fields(edited) | READ_AGAIN | REWRITE
        data |= {
            "title_key": make_title_key(edited.title),
            "facets": _compute_edited_facets(stored.source, edited),
            "updated_at": now,
        }
        rewriting = _Rewriting(edited, now, is_note=stored.saved_by is not None)
        first = next(split_commits(list(rewriting.build_changes(stored.chunks))), [])
        return [put_if_unchanged(stored.snapshot, data), *(change.write for change in first)]

    def build_chunk_writes(
        self, stored: EditableSource, chunk: Chunk, facets: Iterable[str], now: datetime
    ) -> list[Write]:
        """Build the writes that replace a chunk of a source.

        They also change the source, so that an ingest that is running now reads the chunk again.

        Args:
            facets: The facets of the source until the index job collects them again.
        """
        data = REWRITE | {"facets": sorted(facets), "updated_at": now}
        documents = {document.id: document for document in stored.chunks}
        changes = plan_updates(documents, [chunk], now)
        return [put_if_unchanged(stored.snapshot, data), *(change.write for change in changes)]

    async def load_unfinished(self, limit: int) -> list[str]:
        """Load ids of sources whose chunks may not be rewritten yet. Costs one round trip."""
        query = Query(SOURCES).where("rewriting", "==", value=True).select([]).limit(limit)
        return [snapshot.id for snapshot in await self._database.find(query)]

    async def rewrite_chunks(self, source_id: str, now: datetime) -> AsyncIterator[int]:
        """Rewrite the chunks that differ from their source. Yield the number in each commit.

        Raises:
            WriteConflict: The source or a chunk changed since it was read.
        """
        snapshot = await self._database.get(Reference(SOURCES, source_id))
        data = snapshot.fields
        if "rewriting" not in data:
            return
        rewriting = _Rewriting(to_source(snapshot), now, is_note="saved_by" in data)
        facets: set[str] = set()
        first = 1
        while page := await self._load_page(source_id, first):
            for commit in split_commits(list(rewriting.build_changes(page))):
                # This write changes nothing, not even the update time. It is there for its
                # condition: the source is unchanged.
                unchanged = put_if_unchanged(snapshot, REWRITE)
                await self._database.commit([unchanged, *(change.write for change in commit)])
                yield len(commit)
            chunks = [rewriting.rewrite(_to_chunk(chunk_snapshot)) for chunk_snapshot in page]
            facets.update(collect_source_facets(chunks))
            first = chunks[-1].position + 1
        finished = {"rewriting": DELETE_FIELD, "facets": sorted(facets)}
        await self._database.commit([put_if_unchanged(snapshot, finished)])

    async def _load_chunk(self, source_id: str, chunk_id: str) -> list[Document]:
        document = await self._database.get(Reference(CHUNKS, chunk_id), STORED_FIELDS)
        return [document] if document.fields.get("source_id") == source_id else []

    async def _load_page(self, source_id: str, first: int) -> list[Document]:
        query = of_source_query(source_id, MAX_CHANGES, first)
        return await self._database.find(query.select(STORED_FIELDS))


def _compute_edited_facets(before: StoredSource, after: StoredSource) -> list[str]:
    """Return the facets of an edited source, until the index job collects them from all chunks."""
    other_facets = before.facets - set(_iterate_own_facets(before))
    return sorted(other_facets | set(_iterate_own_facets(after)))


def _iterate_own_facets(source: StoredSource) -> Iterator[str]:
    """Yield the ids of the facets of the editable fields."""
    if source.author:
        yield make_named_facet(Kind.AUTHOR, source.author).id
    yield from (facet.id for tag in source.tags for facet in make_path_facets(Kind.TAG, tag))


def _to_chunk(snapshot: Document) -> Chunk:
    return chunk_repository.to_chunk(snapshot.id, snapshot.fields)

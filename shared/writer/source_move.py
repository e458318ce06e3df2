"""Forgetting and restoring a whole source, whose chunks are moved commit by commit.

`forgotten_sources/{source_id}` is written first, with the operation in `unfinished`, so that a
repeated call or the index job completes it. Each commit also updates this record, on the condition
that it is unchanged. If two calls or jobs move the same source, one of them therefore stops.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from shared.core.bisection import bisect_batch
from shared.core.errors import Conflict, PlatformFault
from shared.firestore.claims import FIELD as CLAIM
from shared.firestore.claims import build_reclaim_writes, build_release_writes, load_claim
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import PURGE_AT
from shared.firestore.values import DELETE_FIELD, Increment
from shared.firestore.writes import Delete, Set, Update, Write, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.forgotten_chunks import (
    CHUNKS_PER_COMMIT,
    ContentCounts,
    count_contents,
    forgotten_with_source_query,
)
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import (
    ForgottenSource,
    Unfinished,
    build_forgotten_fields,
)
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import MOVING, READ_AGAIN, RESTORED
from shared.writer.forgetting import Forgetting
from shared.writer.restoring import Restoring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.writer.forgetting import Forgetter


class MovedElsewhere(Conflict):
    """Another call or a job is moving the same source, or deleting it for good."""


class SourceMove:
    """The move of one source with all its chunks.

    Attributes:
        total: What was moved so far, by earlier calls, too.
    """

    def __init__(
        self,
        database: Database,
        source_id: str,
        update_time: Any,
        moved: Mapping[str, int] | None = None,
    ) -> None:
        """Continue a move that has begun.

        Args:
            update_time: The update time of the source's record in `forgotten_sources`.
            moved: What the record says was moved so far.
        """
        self.total = ContentCounts(**(moved or {}))
        self._database = database
        self._source_id = source_id
        self._update_time = update_time
        self._source = Reference(SOURCES, source_id)
        self._record = Reference(FORGOTTEN_SOURCES, source_id)

    @classmethod
    async def begin_forgetting(
        cls,
        database: Database,
        source: Document,
        record: ForgottenSource,
        snapshot: Document,
        forgetter: Forgetter,
    ) -> SourceMove:
        """Record that a source is being forgotten. From now on, ingest leaves it out.

        The commit also changes the source, so that an ingest run that has read the source must
        read it again. A note's text may be saved again from now on.

        Raises:
            WriteConflict: The source or its record changed since they were read. Read both again,
                since another call may have forgotten the source.
        """
        begun = replace(
            record,
            whole=True,
            unfinished=Unfinished.FORGETTING,
            document=source.fields,
            missing=forgetter.missing,
        )
        update_time = await database.commit(
            [
                put_if_unchanged(
                    snapshot, build_forgotten_fields(begun) | forgetter.build_fields()
                ),
                put_if_unchanged(source, {MOVING: forgetter.now} | READ_AGAIN),
                *build_release_writes(source.fields),
            ]
        )
        return cls(database, source.id, update_time)

    @classmethod
    async def begin_restoring(
        cls,
        database: Database,
        record: ForgottenSource,
        snapshot: Document,
        *,
        by_user: bool = False,
    ) -> SourceMove:
        """Restore the document of a source, marked as moving until its chunks are restored, too.

        Args:
            by_user: Whether a user restores what ingest forgot, so that it is not forgotten again.

        Raises:
            Conflict: It is a note whose text was saved again.
            WriteConflict: The record changed since it was read.
        """
        source_id = record.source_id
        source = Reference(SOURCES, source_id)
        fields = record.document or {}
        document = fields | {MOVING: record.forgotten_at}
        document |= {RESTORED: True} if by_user else {}
        begun = {"unfinished": Unfinished.RESTORING.value, PURGE_AT: DELETE_FIELD}
        writes: list[Write] = [
            put_if_unchanged(snapshot, begun),
            Set(source, document),
            *build_reclaim_writes(fields, source_id),
        ]
        try:
            update_time = await database.commit(writes)
        except WriteConflict:
            await _require_free_text(database, fields, source_id)
            raise
        return cls(database, source_id, update_time)

    async def complete(
        self, record: ForgottenSource, now: datetime
    ) -> AsyncIterator[ContentCounts]:
        """Complete the operation that the record calls unfinished.

        Yields:
            What each commit moved.

        Raises:
            MovedElsewhere: Another call or a job is moving the source.
            WriteConflict: Another call or a job has completed the operation.
        """
        is_forgetting = record.unfinished is Unfinished.FORGETTING
        async for moved in self.forget_chunks(now) if is_forgetting else self.restore_chunks(now):
            yield moved
        await self._database.commit(
            self.build_last_forget_writes()
            if is_forgetting
            else self.build_last_restore_writes(record)
        )

    def forget_chunks(self, now: datetime) -> AsyncIterator[ContentCounts]:
        """Move the chunks of a source that is being forgotten.

        Yields:
            What each commit moved.

        Raises:
            MovedElsewhere: Another call or a job is moving the source.
        """
        forgetting = Forgetting(self._database)
        record = {"of_source": self._source_id}
        return self._move(
            Query(CHUNKS).where("source_id", "==", self._source_id).limit(CHUNKS_PER_COMMIT),
            lambda chunks: forgetting.build_move_writes(chunks, record, now),
            lambda chunk: chunk.fields,
        )

    def restore_chunks(self, now: datetime) -> AsyncIterator[ContentCounts]:
        """Move the chunks of a source back that is being restored.

        Yields:
            What each commit moved.

        Raises:
            MovedElsewhere: Another call or a job is moving the source.
        """
        restoring = Restoring(self._database)
        return self._move(
            forgotten_with_source_query(self._source_id),
            lambda chunks: restoring.build_move_back_writes(chunks, now),
            lambda forgotten: forgotten.get("document"),
        )

    def build_last_forget_writes(self) -> list[Write]:
        """Build the writes that delete a source whose chunks were moved."""
        finished = dict.fromkeys(("unfinished", "moved"), DELETE_FIELD)
        return [
            Update(self._record, finished, self._update_time),
            Delete(self._source),
        ]

    def build_last_restore_writes(self, record: ForgottenSource) -> list[Write]:
        """Build the writes that end the restoration of a source.

        Chunks that were forgotten one by one stay forgotten.
        """
        finished = {MOVING: DELETE_FIELD}
        writes: list[Write] = [Update(self._source, finished)]
        if not record.chunk_ids:
            return [*writes, Delete(self._record, self._update_time)]
        remaining = ForgottenSource(source_id=record.source_id, chunk_ids=record.chunk_ids)
        fields = build_forgotten_fields(remaining)
        return [*writes, Update(self._record, fields, self._update_time)]

    async def _move(
        self,
        query: Query,
        build_writes: Callable[[Sequence[Document]], Awaitable[Sequence[Write]]],
        get_fields: Callable[[Document], Mapping[str, Any]],
    ) -> AsyncIterator[ContentCounts]:
        """Move the results of a query until there are none. A chunk that changed is read again.

        Args:
            query: The query. A chunk no longer matches it when it is moved.
            build_writes: Builds the writes that move chunks.
            get_fields: Returns the fields of a chunk from a result.

        Yields:
            What each commit moved.

        Raises:
            MovedElsewhere: Another call or a job is moving the source.
            PlatformFault: The database refuses to move a single chunk.
        """

        async def commit(page: Sequence[Document]) -> None:
            await self._commit(await build_writes(page), count_contents(map(get_fields, page)))

        has_more = True
        while has_more:
            page = await self._database.find(query)
            has_more = len(page) == CHUNKS_PER_COMMIT
            async for chunks, outcome in bisect_batch(page, commit, (PlatformFault, WriteConflict)):
                if isinstance(outcome, PlatformFault):
                    raise outcome
                if isinstance(outcome, WriteConflict):
                    await self._require_unchanged_record()
                    has_more = True
                else:
                    yield count_contents(map(get_fields, chunks))

    async def _commit(self, writes: Sequence[Write], counts: ContentCounts) -> None:
        """Commit writes, and add what they move to the record."""
        moved = {f"moved.{name}": Increment(count) for name, count in asdict(counts).items()}
        self._update_time = await self._database.commit(
            [*writes, Update(self._record, moved, self._update_time)]
        )
        self.total += counts

    async def _require_unchanged_record(self) -> None:
        record = await self._database.get(self._record, [])
        if record.update_time != self._update_time:
            raise MovedElsewhere(
                "Another call or a job is moving this source at the same time. Try again in a few"
                " minutes.",
                details={"source_id": self._source_id},
            )


async def _require_free_text(database: Database, fields: Mapping[str, Any], source_id: str) -> None:
    """Check that no other note has the text of a note to restore. Costs one round trip at most.

    Raises:
        Conflict: Another note has it.
    """
    if (claim_id := fields.get(CLAIM)) is None:
        return
    holder = (await load_claim(database, claim_id)).holder
    if holder not in (None, source_id):
        raise Conflict(
            f"The text of this note was saved again meanwhile, as the note {holder}. Nothing was"
            " restored: forget that note first, or keep it instead.",
            details={"source_id": source_id, "duplicate": holder},
        )

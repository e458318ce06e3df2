"""Brings `sources/{source_id}` and their chunks up to date with what ingest has read."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from shared.core.bisection import bisect_batch
from shared.core.errors import PlatformFault
from shared.core.log import error_fields, log
from shared.firestore.database import InvalidContent
from shared.firestore.documents import Document, Reference, get_fields
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD, Increment
from shared.firestore.writes import Create, Delete, Together, Update, Write
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.source_repository import (
    COLLECTION as SOURCES,
)
from shared.knowledge.source_repository import (
    OVERRIDE_FIELDS,
    READ_AGAIN,
    RESTORED,
    build_note_fields,
    build_removed_fields,
    read_overrides,
)
from shared.writer.chunk_changes import STORED_FIELDS, plan_queued
from shared.writer.chunked_source import ChunkedSource, build_source_document
from shared.writer.commits import ENTRIES_PER_DELETION, Change, pack_commits, split_commits
from shared.writer.note_repository import build_revision_writes
from shared.writer.stored_merging import (
    INCOMPLETE,
    LOG_FIELDS,
    build_log_fields,
    get_merged_hashes,
    merge_into_stored,
    says_nothing_new,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.knowledge.forgotten_repository import ForgottenSource
    from shared.knowledge.source import Source

    KeepRemoved = Callable[[Sequence[str]], Awaitable[Mapping[str, Write]]]
    """Builds the writes that keep chunks, by id, so that they can be restored."""

BATCH_SIZE: Final = 30
"""The maximum number of sources that are compared at a time. Firestore accepts 30 values in one
`in`."""
PARTS: Final = "parts"
"""The field that counts the commits of a source before its last one. So each of them changes the
document: a write that changes nothing would leave the update time as it was."""


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The result of saving sources.

    Attributes:
        counts: The counts that `Ingestion.save` returns.
        refused: Why the database refuses sources, by source id.
        missing: The ids of sources that ingest forgot because their origin did not have them. They
            are not saved. Restore them first, and save them again.
        emptied: The ids of sources whose last chunks a log names as deleted. Forget them.
        removed: The number of deleted chunks that were kept so that they can be restored.
    """

    counts: Counter[str]
    refused: dict[str, str]
    missing: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    removed: int = 0


class Ingestion:
    """Brings the stored sources and chunks up to date."""

    def __init__(
        self,
        database: Database,
        keep_removed: KeepRemoved | None = None,
        *,
        keeps_replaced: bool = False,
    ) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            keep_removed: Builds the writes that keep highlights that their origin deleted. By
                default, they are lost.
            keeps_replaced: Whether it also keeps chunks that another version replaces.
        """
        self._database = database
        self._keep_removed = keep_removed
        self._keeps_replaced = keeps_replaced
        self._emptied: set[str] = set()

    async def save(self, sources: Sequence[ChunkedSource], now: datetime) -> Counter[str]:
        """Write what differs from the database.

        Every commit also writes the documents of its sources, on the condition that they have not
        changed. Therefore no chunk is ever without its source, and nothing is written of a source
        that is forgotten in the meantime. A source that takes several commits gets its content hash
        with the last one. If the run is killed before that, the next run compares the source again.

        Args:
            sources: At most BATCH_SIZE sources with different ids. A source without chunks is
                deleted.

        Returns:
            The number of `sources` that differed, and of chunks that were `created`, `updated` and
            `deleted`. Also the number of sources that are not written because they are
            `forgotten`, and of `edits kept`, which are sources with values that the owner set.

        Raises:
            PlatformFault: The database refuses a source. Other sources may have been written.
        """
        counts: Counter[str] = Counter()
        await self._save(sources, now, counts)
        return counts

    async def save_each(self, sources: Sequence[ChunkedSource], now: datetime) -> SaveResult:
        """Write what differs, even if the database refuses some of the sources.

        Of a new source that is refused, nothing stays. A refused source that was stored before
        keeps its old document, so that the next run tries it again.
        """
        counts: Counter[str] = Counter()
        refused: dict[str, str] = {}
        missing: set[str] = set()

        async def save(batch: Sequence[ChunkedSource]) -> None:
            try:
                missing.update(await self._save(batch, now, counts))
            except (PlatformFault, ValueError) as error:
                if reason := _explain_refusal(error):
                    raise _Refusal(reason) from error
                raise

        async for batch, refusal in bisect_batch(sources, save, _Refusal):
            if refusal:
                log.warning("source_refused", **error_fields(refusal))
                [source] = batch
                refused[source.source.source_id] = str(refusal)
                await self._undo_new_source(source, now, counts)
        removed = counts.pop("removed", 0)
        emptied = frozenset(self._emptied)
        return SaveResult(counts, refused, frozenset(missing), emptied, removed)

    async def _undo_new_source(
        self, source: ChunkedSource, now: datetime, counts: Counter[str]
    ) -> None:
        """Delete what was written of a new source before the database refused the rest."""
        stored = await self._load_stored_sources([source])
        if any(INCOMPLETE in snapshot.fields for snapshot in stored.values()):
            await self._save([ChunkedSource(source.source, [])], now, counts)

    async def _save(
        self, sources: Sequence[ChunkedSource], now: datetime, counts: Counter[str]
    ) -> set[str]:
        """Write what differs, and count the writes of each commit.

        After a conflict with another writer, everything is read again.

        Returns:
            The ids of sources to restore first, as in `SaveResult.missing`.
        """
        forgotten: Mapping[str, ForgottenSource] = await self._database.retry_on_conflict(
            lambda: self._attempt(sources, now, counts)
        )
        whole = [record for record in forgotten.values() if record.whole]
        counts.update("forgotten" for record in whole if not record.missing)
        present = {source.source.source_id for source in sources if source.chunks}
        return present.intersection(record.source_id for record in whole if record.missing)

    async def _attempt(
        self, sources: Sequence[ChunkedSource], now: datetime, counts: Counter[str]
    ) -> dict[str, ForgottenSource]:
        """Write what differs, and return what was forgotten of these sources, by source id.

        Costs a round trip, and another for what is stored of the sources that differ.
        """
        stored = await self._load_stored_sources(sources)
        sources = [_apply_overrides(source, stored) for source in sources]
        different = [source for source in sources if _has_changed(source, stored)]
        source_ids = [source.source.source_id for source in different]
        forgotten: dict[str, ForgottenSource]
        chunks, forgotten = await asyncio.gather(
            self._load_stored_chunks(source_ids),
            ForgottenSources(self._database).get_many(source_ids),
        )
        small_sources: list[list[Change]] = []
        kept_count = 0
        for read in _skip_forgotten(different, forgotten):
            source_id = read.source.source_id
            document, stored_chunks = stored.get(source_id), chunks.get(source_id, {})
            source, merged = merge_into_stored(read, document, stored_chunks)
            kept_count += merged.kept_count
            if merged.removed_ids and not source.stored_chunks:
                self._emptied.add(source_id)
                continue
            changes: list[Change] = []
            removed_ids = set(merged.removed_ids)
            if self._keeps_replaced:
                removed_ids |= stored_chunks.keys() - {
                    chunk.chunk_id for chunk in source.stored_chunks
                }
            if removed_ids and self._keep_removed:
                # Before the deletions: a run that is killed between two commits loses no chunk.
                kept = await self._keep_removed(sorted(removed_ids))
                changes += [
                    Change("removed", write, ENTRIES_PER_DELETION) for write in kept.values()
                ]
            changes += plan_queued(stored_chunks, source.stored_chunks, now, merged.replaced_by)
            if not changes and document and says_nothing_new(source, document):
                # Its hash is stored, so that the next run reads no chunks.
                small_sources.append([self._build_hash_change(source, document)])
                continue
            parts = list(
                split_commits([*changes, *self._build_source_change(source, document, now)])
            )
            if len(parts) > 1 and (document or source.stored_chunks):
                await self._commit_parts(
                    source,
                    document,
                    parts,
                    chunk_count=len(stored_chunks),
                    now=now,
                    counts=counts,
                )
            else:
                small_sources += parts
        for commit in pack_commits(small_sources):
            await self._database.commit(change.write for change in commit)
            counts.update(change.kind for change in commit if change.kind)
        if kept_count:
            counts["passages kept"] += kept_count
        edited = sum(bool(source.origin_values) for source in sources)
        counts.update(["edits kept"] * edited)
        return forgotten

    async def _commit_parts(  # noqa: PLR0913 - what is stored, what differs, and the counts
        self,
        source: ChunkedSource,
        stored: Document | None,
        parts: Sequence[list[Change]],
        *,
        chunk_count: int,
        now: datetime,
        counts: Counter[str],
    ) -> None:
        """Commit the changes of a source that is too large for one commit.

        The last change is that of the source's document. The earlier commits change the document,
        too, but leave it without a content hash, so that the next run repeats an interrupted one.

        Raises:
            WriteConflict: The document changed since it was read.
        """
        reference = Reference(SOURCES, source.source.source_id)
        update_time = stored.update_time if stored else None
        for part in parts[:-1]:
            kinds = Counter(change.kind for change in part)
            chunk_count += kinds["created"] - kinds["deleted"]
            fields = READ_AGAIN | {"chunk_count": chunk_count, PARTS: Increment(1)}
            if update_time is None:
                first = build_source_document(source, now) | _build_dates(source.source, now)
                fields = first | fields | {INCOMPLETE: True}
            writes = [change.write for change in part]
            update_time = await self._database.commit(
                [*writes, _build_put(reference, fields, update_time)]
            )
            counts.update(kinds)
        last = [*parts[-1][:-1], *self._build_source_change(source, stored, now, update_time)]
        await self._database.commit(change.write for change in last)
        counts.update(change.kind for change in last)

    async def _load_stored_sources(self, sources: Sequence[ChunkedSource]) -> dict[str, Document]:
        references = [Reference(SOURCES, source.source.source_id) for source in sources]
        fields = ["revision", "readwise_url", *LOG_FIELDS, *OVERRIDE_FIELDS]
        # Notes are read with all fields, because a note that is replaced is kept.
        with_notes = any(source.source.note for source in sources)
        snapshots = await self._database.get_all(references, None if with_notes else fields)
        return {snapshot.id: snapshot for snapshot in snapshots}

    async def _load_stored_chunks(
        self, source_ids: Sequence[str]
    ) -> dict[str, dict[str, Document]]:
        """Load the stored chunks without their vectors, by source id and chunk id."""
        chunks: dict[str, dict[str, Document]] = {}
        if source_ids:
            query = Query(CHUNKS).where("source_id", "in", list(source_ids)).select(STORED_FIELDS)
            for snapshot in await self._database.find(query):
                chunks.setdefault(snapshot.get("source_id"), {})[snapshot.id] = snapshot
        return chunks

    def _build_source_change(
        self,
        source: ChunkedSource,
        stored: Document | None,
        now: datetime,
        update_time: Any = None,
    ) -> Iterator[Change]:
        """Yield the change of a source's document that completes the source.

        Args:
            stored: Its document, as it was read.
            update_time: The update time of the document, if an earlier commit of this run wrote it.
        """
        reference = Reference(SOURCES, source.source.source_id)
        update_time = update_time or (stored.update_time if stored else None)
        if source.stored_chunks:
            data = build_source_document(source, now)
            data |= build_log_fields(source.source, get_fields(stored))
            if stored and INCOMPLETE not in stored.fields:
                data |= _build_note_update(source.source, stored.fields)
            else:
                note = source.source.note
                data |= _build_dates(source.source, now) | (build_note_fields(note) if note else {})
            if update_time:
                data |= build_removed_fields(source.source) | {
                    INCOMPLETE: DELETE_FIELD,
                    PARTS: DELETE_FIELD,
                }
                # From now on, an origin that has the whole source may remove it again.
                data |= {} if source.source.adds_only else {RESTORED: DELETE_FIELD}
            kept = build_revision_writes(stored, now) if stored and source.source.note else []
            write = _build_put(reference, data, update_time)
            yield Change("sources", Together([write, *kept]))
        elif update_time:
            yield Change("sources", Delete(reference, update_time))

    def _build_hash_change(self, source: ChunkedSource, stored: Document) -> Change:
        """Return the change that records what was merged into an unchanged source."""
        reference = Reference(SOURCES, source.source.source_id)
        fields = {"content_hash": " ".join(source.merged_hashes)}
        fields |= build_log_fields(source.source, stored.fields)
        return Change("", _build_put(reference, fields, stored.update_time))


def _apply_overrides(source: ChunkedSource, stored: Mapping[str, Document]) -> ChunkedSource:
    """Apply the values that the owner set: the stored ones, or for a new source, the export's."""
    if not source.chunks and not source.source.adds_only:
        return source
    document = stored.get(source.source.source_id)
    values = read_overrides(document.fields) if document else source.source.overrides
    return source.override(values)


def _skip_forgotten(
    sources: Iterable[ChunkedSource], forgotten: Mapping[str, ForgottenSource]
) -> Iterator[ChunkedSource]:
    """Leave out what was forgotten.

    A source that is being moved, and a source that must be restored first, are left out. A source
    that is forgotten becomes one to delete, so that what an interrupted run wrote of it goes, too.
    """
    for source in sources:
        record = forgotten.get(source.source.source_id)
        if record is None:
            yield source
        elif not record.whole:
            yield replace(source, forgotten_ids=record.chunk_ids)
        elif record.unfinished is None and not (record.missing and source.chunks):
            yield ChunkedSource.deleted(source.source.source_id)


def _has_changed(source: ChunkedSource, stored: Mapping[str, Document]) -> bool:
    """Return whether a source must be written.

    A source to delete always is, because it may have left chunks behind. A note from an export only
    replaces an earlier revision. The stored hash of a source that was merged from several logs has
    a part for each, so that an old log is not compared with newer ones again and again.
    """
    data = get_fields(stored.get(source.source.source_id))
    if source.source.adds_only and not source.chunks and not data:
        return False  # There is nothing from which a highlight could be deleted.
    if source.source.note and source.chunks:
        return bool(data.get("revision", 0) < source.source.note.revision)
    is_deletion = not source.chunks and not source.source.adds_only
    return is_deletion or source.content_hash not in get_merged_hashes(data)


def _build_dates(source: Source, now: datetime) -> dict[str, Any]:
    return {"created_at": source.created_at or now, "updated_at": source.updated_at or now}


def _build_note_update(source: Source, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which a note from an export replaces a stored one.

    The stored `saved_by` stays.
    """
    if not source.note:
        return {}
    return build_note_fields(
        replace(source.note, saved_by=stored.get("saved_by", source.note.saved_by))
    )


def _build_put(reference: Reference, data: dict[str, Any], update_time: Any) -> Write:
    """Return the write that creates a document, or updates it if it has this update time."""
    if update_time is None:
        return Create(reference, data)
    return Update(reference, data, update_time)


class _Refusal(Exception):
    """The database refuses a source because of its content. The message says why, for people."""


def _explain_refusal(error: PlatformFault | ValueError) -> str | None:
    """Return why the database refuses a source's content, or None for any other fault."""
    if isinstance(error, ValueError):
        return f"is refused by the database ({type(error).__name__})"
    return "is refused by the database" if isinstance(error, InvalidContent) else None

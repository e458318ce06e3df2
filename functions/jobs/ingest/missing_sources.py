"""Forgets sources that an origin no longer contains, and restores them when they come back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.fields import to_one_line
from shared.core.blocks import split
from shared.core.dates import format_day
from shared.core.installation import carrel
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.knowledge.forgotten_repository import (
    INGEST,
    ForgottenSource,
    ForgottenSources,
    Unfinished,
)
from shared.knowledge.source_repository import RESTORED, Sources
from shared.runtime.job import Failure
from shared.text.counts import format_count
from shared.writer.forgetting import Forgetter, Forgetting
from shared.writer.forgotten_admission import build_source_admission
from shared.writer.ingestion import BATCH_SIZE
from shared.writer.source_move import SourceMove

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Report


@dataclass(frozen=True, slots=True)
class Missing:
    """What a followed folder or bucket no longer contains.

    Attributes:
        ids: The ids of the sources.
        files: The names of the files that contained them and are gone.
        former_file_count: The number of files that were ingested before.
        former_source_count: The number of sources that were ingested before.
        command: The command that forgets the sources even if they are many.
    """

    ids: frozenset[str]
    files: Sequence[str]
    former_file_count: int
    former_source_count: int
    command: str

    @property
    def is_alarming(self) -> bool:
        """Whether more than a third of the files or texts is missing, which a user must confirm."""
        return (
            3 * len(self.files) > self.former_file_count
            or 3 * len(self.ids) > self.former_source_count
        )

    def make_alarm(self, name: str) -> Failure:
        """Return the failure of an origin that tells the user how to forget the missing texts."""
        files = f"{len(self.files)} of {self.former_file_count} files"
        texts = f"{len(self.ids)} of {self.former_source_count} texts"
        return Failure(
            to_one_line(name),
            f"{files if self.files else texts} disappeared, and nothing is forgotten: to"
            f" forget their texts, run {self.command}",
        )


def describe_removed(report: Report, zone: tzinfo) -> str:
    """Say what a run took out of the knowledge base and how to restore it, or return ""."""
    if report.removed_at is None or not report.removed.total():
        return ""
    counts = [("source", report.removed["sources"]), ("passage", report.removed["passages"])]
    removed = " and ".join(format_count(count, name) for name, count in counts if count)
    until = format_day(RESTORABLE_SOURCES.compute_purge_at(report.removed_at), zone)
    time = f"{report.removed_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    command = carrel(f"forget --restore --run {time}")
    return f"Removed {removed}, gone at the origin. To restore until {until}: {command}"


class MissingSources:
    """Forgets and restores sources, as the tool `forget` does.

    A source that was missing is restored with its vectors and knowledge cards. A source that a user
    forgot stays forgotten.
    """

    def __init__(self, ctx: Context, report: Report) -> None:
        """Store the arguments.

        Args:
            report: Counts the moved `sources`, and the `deleted` and `restored` chunks.
        """
        self._context = ctx
        self._database = ctx.database
        self._report = report
        self._counts = report.counts

    async def build_keep_writes(self, chunk_ids: Sequence[str]) -> dict[str, Write]:
        """Build the writes that keep highlights which their origin has deleted, by chunk id."""
        return await Forgetting(self._database).build_keep_writes(
            chunk_ids, self._make_forgetter(missing=True)
        )

    async def forget(self, source_ids: Sequence[str], *, stays: bool = False) -> None:
        """Forget sources. Those that are not stored cost one round trip for each `BATCH_SIZE`.

        Args:
            stays: Whether they stay forgotten even if an origin has them again.

        Raises:
            MovedElsewhere: Another call or job is moving a source at the same time.
        """
        for block in split(source_ids, BATCH_SIZE):
            stored = {source.source_id for source in await Sources(self._database).get_all(block)}
            for source_id in block:
                if source_id in stored:
                    await self._database.retry_on_conflict(
                        partial(self._forget, source_id, stays=stays)
                    )

    async def restore(self, source_ids: Iterable[str]) -> None:
        """Restore sources. If a source was deleted for good, only its record is removed.

        Raises:
            MovedElsewhere: Another call or job is moving a source at the same time.
        """
        for source_id in source_ids:
            await self._database.retry_on_conflict(partial(self._restore, source_id))

    async def _forget(self, source_id: str, *, stays: bool) -> None:
        """Forget a source, in place of a user. Moves of an earlier run are completed first."""
        await self._complete_unfinished(source_id)
        source = await Forgetting(self._database).load_source(source_id)
        if source is None or RESTORED in source.fields:
            return
        record, snapshot = await ForgottenSources(self._database).get(source_id)
        forgetter = self._make_forgetter(missing=not stays)
        move = await SourceMove.begin_forgetting(
            self._database, source, record, snapshot, forgetter
        )
        self._report.removed["sources"] += 1
        await self._complete(move, replace(record, unfinished=Unfinished.FORGETTING))

    def _make_forgetter(self, *, missing: bool) -> Forgetter:
        """Return ingest as a forgetter. All records of a run have the same time."""
        self._report.removed_at = self._report.removed_at or self._context.clock()
        return Forgetter(INGEST, None, self._report.removed_at, missing=missing)

    async def _restore(self, source_id: str) -> None:
        await self._complete_unfinished(source_id)
        record, snapshot = await ForgottenSources(self._database).get(source_id)
        if not record.missing:
            return
        if record.document is None:
            await self._database.commit([build_source_admission(record, snapshot)])
            return
        move = await SourceMove.begin_restoring(self._database, record, snapshot)
        await self._complete(move, replace(record, unfinished=Unfinished.RESTORING))

    async def _complete_unfinished(self, source_id: str) -> None:
        """Complete the move of a source that a killed run left unfinished."""
        record, snapshot = await ForgottenSources(self._database).get(source_id)
        if record.unfinished:
            move = SourceMove(self._database, source_id, snapshot.update_time)
            await self._complete(move, record)

    async def _complete(self, move: SourceMove, record: ForgottenSource) -> None:
        kind = "deleted" if record.unfinished is Unfinished.FORGETTING else "restored"
        async for moved in move.complete(record, self._context.clock()):
            self._counts[kind] += moved.chunks
            if kind == "deleted":
                self._report.removed["passages"] += moved.chunks
        self._counts["sources"] += 1

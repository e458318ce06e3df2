"""The record of each run of a job in Firestore: `runs/{run_id}`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import PURGE_AT, Retention
from shared.firestore.writes import Set, Write

if TYPE_CHECKING:
    from shared.firestore.database import Database

COLLECTION: Final = "runs"
RUN_RECORDS: Final = Retention(
    title="records of runs of jobs", collection=COLLECTION, duration=timedelta(days=30)
)
_TIME_FORMAT: Final = "%Y%m%dT%H%M%S%f"
"""The format of the time in the id of a run."""


class RunState(StrEnum):
    """Whether a run is running, or how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    """All work is done."""
    OUT_OF_TIME = "out of time"
    """The run ended in time, and the next run continues its work."""
    STOPPED = "stopped"
    """An error ended the run."""
    DIED = "died"
    """The run was killed or cut off from the database. A later run of the job recorded this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job.

    Attributes:
        run_id: The id; see `new_run_id`.
        state: Whether the run is running, or how it ended.
        ended_at: When the run ended, or None if it is running or died.
        progress: How many items the run has processed.
        counts: The job's own counters by name.
        failures: The first items that failed, each as `name: reason`.
        failed: How many items failed.
        warnings: The first items that succeeded in part, each as `name: problem`.
        warned: How many items succeeded in part.
        error: The error that stopped the run, or an empty string.
        note: The job's remark on the run, or an empty string.
        documents_read: The number of documents read, as Firestore bills them.
        documents_written: The number of documents written, as Firestore bills them.
        input_tokens: The number of tokens sent to language models.
        output_tokens: The number of tokens that language models wrote.
    """

    run_id: str
    state: RunState
    ended_at: datetime | None = None
    progress: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    failed: int = 0
    warnings: tuple[str, ...] = ()
    warned: int = 0
    error: str = ""
    note: str = ""
    documents_read: int = 0
    documents_written: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def job(self) -> str:
        """The job's name."""
        return self.run_id.split(".")[0]

    @property
    def started_at(self) -> datetime:
        """When the run started."""
        return datetime.strptime(self.run_id.split(".")[1], _TIME_FORMAT).replace(tzinfo=UTC)


def new_run_id(job: str, now: datetime) -> str:
    """Make the id of a run that starts now: `job.time.random`, with the time in UTC."""
    return f"{job}.{now.astimezone(UTC):{_TIME_FORMAT}}.{uuid.uuid4().hex[:8]}"


_CODEC: Final = Codec(Run, "run_id", readers={"state": RunState})


class Runs:
    """The records of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_latest(self, job: str, limit: int) -> list[Run]:
        """Load the latest runs of a job, latest first. Costs one round trip."""
        query = (
            Query(COLLECTION)
            .where("job", "==", job)
            .order_by("started_at", descending=True)
            .limit(limit)
        )
        return [_to_run(snapshot) for snapshot in await self._database.find(query)]

    def record(self, run: Run) -> Write:
        """Build the write that stores the record of a run, or replaces it."""
        reference = Reference(COLLECTION, run.run_id)
        data = _CODEC.write(run) | _build_index_fields(run)
        return Set(reference, data)

    def mark_died(self, run_id: str) -> Write:
        """Build the write that sets a run's state to DIED, and keeps the rest of the record."""
        run = Run(run_id=run_id, state=RunState.DIED)
        reference = Reference(COLLECTION, run_id)
        data = {"state": run.state.value} | _build_index_fields(run)
        return Set(reference, data, merge=True)


def _build_index_fields(run: Run) -> dict[str, Any]:
    """Return the fields by which runs are listed and deleted."""
    purge_at = RUN_RECORDS.compute_purge_at(run.started_at)
    return {"job": run.job, "started_at": run.started_at, PURGE_AT: purge_at}


def _to_run(snapshot: Document) -> Run:
    return _CODEC.read(snapshot.id, snapshot.fields)

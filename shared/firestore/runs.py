"""`runs/{run_id}`: what each run of a job did, for as long as anybody may ask."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import Query
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

COLLECTION: Final = "runs"
RETENTION: Final = timedelta(days=30)
_TIME: Final = "%Y%m%dT%H%M%S"


class RunState(StrEnum):
    """How a run goes, or how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    OUT_OF_TIME = "out of time"
    STOPPED = "stopped"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job.

    Attributes:
        run_id: See `new_run_id`.
        state: Stopped by an error, or died: killed, or cut off from the database.
        ended_at: None while it runs, and of one that died.
        progress: How many items it has dealt with.
        counts: How many of what it did, by name.
        failures: The first items that did not go through, each as `name: reason`.
        failed: How many did not.
        warnings: The first items that went through but for a part, each as `name: what is wrong`.
        warned: How many did.
        error: What stopped it.
        note: What else the job says of it.
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
        """When it began, to the second."""
        return datetime.strptime(self.run_id.split(".")[1], _TIME).replace(tzinfo=UTC)


def new_run_id(job: str, now: datetime) -> str:
    """A name for a run that begins: `job.time.chance`, the time in UTC."""
    return f"{job}.{now.astimezone(UTC):{_TIME}}.{uuid.uuid4().hex[:8]}"


_CODEC: Final = Codec(Run, "run_id", readers={"state": RunState})


class Runs:
    """What runs did."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def latest(self, job: str, limit: int) -> list[Run]:
        """The runs of a job, the latest first. One round trip."""
        query = latest_query(self._database.client, job, limit)
        return [_run(snapshot) for snapshot in await self._database.find(query)]

    def record(self, run: Run) -> Write:
        """Write what is known of a run."""
        reference = self._database.document(COLLECTION, run.run_id)
        data = _CODEC.write(run) | _listed_by(run)
        return lambda batch: batch.set(reference, data)

    def died(self, run_id: str) -> Write:
        """Say of a run that nobody will hear of it again; what it said of itself stays."""
        run = Run(run_id=run_id, state=RunState.DIED)
        reference = self._database.document(COLLECTION, run_id)
        data = {"state": run.state.value} | _listed_by(run)
        return lambda batch: batch.set(reference, data, merge=True)


def latest_query(client: AsyncClient, job: str, limit: int) -> AsyncQuery:
    """The runs of a job, the latest first."""
    query = client.collection(COLLECTION).where(filter=FieldFilter("job", "==", job))
    return query.order_by("started_at", direction=Query.DESCENDING).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield latest_query(client, "embed", 1)


def _listed_by(run: Run) -> dict[str, Any]:
    """What lists and expiry of runs go by."""
    return {"job": run.job, "started_at": run.started_at, "expires_at": run.started_at + RETENTION}


def _run(snapshot: DocumentSnapshot[Any]) -> Run:
    return _CODEC.read(snapshot.id, snapshot.to_dict() or {})

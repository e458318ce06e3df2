"""Firestore: one connection a process, and a database that counts what a call reads and writes."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.api_core import exceptions
from google.cloud.firestore import AsyncClient, LastUpdateOption
from google.cloud.firestore_v1.async_aggregation import AsyncAggregationQuery

from shared.core.bisection import bisect
from shared.core.errors import Conflict, PlatformFault, Unavailable
from shared.core.log import log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from google.cloud.firestore import (
        AsyncCollectionReference,
        AsyncDocumentReference,
        AsyncQuery,
        AsyncWriteBatch,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery
    from google.cloud.firestore_v1.types import WriteResult

    from shared.core.dates import Clock
    from shared.core.meter import Meter

    Document = DocumentSnapshot[Any]
    """A document as it was read."""
    Write = Callable[[AsyncWriteBatch], object]
    """Adds one write to a batch, or several that belong together (see `combine_writes`)."""

CONFLICT_SECONDS: Final = 20.0
"""How long to try again where somebody else is always faster; a call's own time may end sooner."""
FIRST_PAUSE: Final = 0.01
MAX_PAUSE: Final = 0.5
"""Seconds. The pause doubles with every race that is lost."""

MAX_COMMIT_BYTES: Final = 4_000_000
"""What a commit may hold: the emulator takes requests of 4 MiB, the cloud of 10."""

ResultT = TypeVar("ResultT")

_UNREACHABLE: Final = "The database cannot be reached right now. Nothing is wrong with the call."
_DOWN = (
    exceptions.ServiceUnavailable,
    exceptions.DeadlineExceeded,
    exceptions.TooManyRequests,
    exceptions.InternalServerError,
    exceptions.Unknown,
    exceptions.RetryError,
)
_STALE = (
    exceptions.FailedPrecondition,
    exceptions.Aborted,
    exceptions.NotFound,
    exceptions.AlreadyExists,
)


class WriteConflict(Conflict):
    """A commit was refused because a document changed, vanished or appeared since it was read."""


class CommitTooLarge(PlatformFault):
    """A commit holds more than the database takes at once; Google's client would try for long."""


class LeaseLost(Conflict):
    """Another run has taken over; nothing of the refused commit was written."""


@dataclass(slots=True)
class Lease:
    """A lease that is held. Its renewal, preconditioned, rides in every commit of the run.

    Attributes:
        job: What it is the lease of.
        holder: Names this run.
        seconds: How long it lasts after the last commit.
        update_time: When this run last wrote it, as far as it knows.
    """

    job: str
    holder: str
    seconds: float
    update_time: Any
    _reference: AsyncDocumentReference
    _clock: Clock

    def renew_in(self, batch: AsyncWriteBatch) -> str:
        """Add the renewal to a batch: if the lease was lost, the whole batch is refused.

        Returns:
            What the lease then names as its last commit.
        """
        expiry = self._clock() + timedelta(seconds=self.seconds)
        commit_id = uuid.uuid4().hex
        renewal = {"expires_at": expiry, "commit": commit_id}
        batch.update(self._reference, renewal, LastUpdateOption(self.update_time))
        return commit_id

    async def present(self, database: Database) -> DocumentSnapshot[Any]:
        """The lease as it stands.

        Raises:
            LeaseLost: Another run has taken it.
        """
        snapshot = await database.get(self._reference)
        if not snapshot.exists or snapshot.get("holder") != self.holder:
            raise LeaseLost(f"Another run holds the lease of {self.job}; this one stops.")
        return snapshot


class Database:
    """Firestore, for the length of one call or one run."""

    def __init__(
        self,
        connection: Connection,
        meter: Meter,
        request_seconds: float | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Use a connection, which opens with the first request.

        Args:
            connection: What the process has open.
            meter: Counts what is read and written.
            request_seconds: How long to wait for an answer; by default as long as Google's client
                tries, which is a minute and more.
            read_only: Whether to refuse to write, as the cloud does by the role of an account.
        """
        self.meter = meter
        self._connection = connection
        self._request_seconds = request_seconds
        self._read_only = read_only
        self._caches = connection.caches
        self.lease: Lease | None = None
        self._one_commit = asyncio.Lock()

    @property
    def client(self) -> AsyncClient:
        """The client, which belongs to the running event loop."""
        return self._connection.client

    def cache(self, repository: str) -> dict[Any, Any]:
        """What a repository remembers for all calls of the process."""
        return self._caches[repository]

    def collection(self, path: str) -> AsyncCollectionReference:
        """The collection at `path`."""
        return self.client.collection(path)

    def document(self, collection: str, document_id: str) -> AsyncDocumentReference:
        """The document `document_id` of `collection`."""
        return self.client.collection(collection).document(document_id)

    async def get(
        self, reference: AsyncDocumentReference, fields: Sequence[str] | None = None
    ) -> DocumentSnapshot[Any]:
        """Read one document; its snapshot may say that it does not exist."""
        async with self._request():
            self.meter.documents_read += 1
            return await reference.get(field_paths=fields)

    async def get_all(
        self, references: Sequence[AsyncDocumentReference], fields: Sequence[str] | None = None
    ) -> list[DocumentSnapshot[Any]]:
        """Read documents in one request; those that do not exist are left out."""
        if not references:
            return []
        async with self._request():
            self.meter.documents_read += len(references)
            snapshots = self.client.get_all(list(references), field_paths=fields)
            return [snapshot async for snapshot in snapshots if snapshot.exists]

    async def find(self, query: AsyncQuery | AsyncVectorQuery) -> list[DocumentSnapshot[Any]]:
        """Run a query that carries its own limit."""
        async with self._request():
            found = [snapshot async for snapshot in query.stream()]
            self.meter.documents_read += max(1, len(found))
            return found

    async def count(self, query: AsyncQuery) -> int:
        """How many documents match, without reading them: one read per 1,000 index entries."""
        async with self._request():
            [[result]] = await AsyncAggregationQuery(query).count().get()
            self.meter.documents_read += 1 + int(result.value) // 1_000
            return int(result.value)

    async def commit(self, writes: Iterable[Write]) -> Sequence[WriteResult]:
        """Make all writes visible at once, or none. Under a lease, its renewal is one of them.

        Returns:
            What the server says of each write; nothing where its answer was lost on the way.

        Raises:
            WriteConflict: A document changed since it was read.
            LeaseLost: Another run has taken the lease.
        """
        listed = list(writes)
        if not listed:
            return []
        async with self._one_commit:
            return await self._commit(listed)

    async def commit_skipping_conflicts(self, writes: Sequence[Write]) -> int:
        """Commit the writes whose preconditions hold and drop the others; return how many held.

        The batch is halved around what was refused, so that one document that somebody edited
        meanwhile costs a few commits and not the batch; and where it is too much at once.

        Raises:
            PlatformFault: The database refuses a write for what it is.
        """
        committed = 0
        async for batch, outcome in bisect(writes, self.commit, (WriteConflict, PlatformFault)):
            if isinstance(outcome, PlatformFault):
                raise outcome
            committed += 0 if isinstance(outcome, WriteConflict) else len(batch)
        return committed

    async def retry_on_conflict(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Read, decide and commit again for as long as somebody else commits in between.

        Transactions would hold locks while they think; this holds none.

        Raises:
            Unavailable: It lost every race, and nothing was written.
        """
        pause, over = FIRST_PAUSE, time.monotonic() + CONFLICT_SECONDS
        while time.monotonic() < over:
            try:
                return await attempt()
            except WriteConflict:
                await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
                pause = min(2 * pause, MAX_PAUSE)
        message = "Too much is written there at once."
        raise Unavailable(message, details={"outcome": "nothing_done"}, retry_after=1)

    async def _commit(self, writes: Sequence[Write]) -> Sequence[WriteResult]:
        if not self.lease:
            return await self._send(self._batch(writes))
        while True:
            batch = self._batch(writes)
            commit_id = self.lease.renew_in(batch)
            try:
                *results, renewal = await self._send(batch)
            except WriteConflict:
                # Answers get lost: this commit may have landed, for Google's client sends it again,
                # or an earlier renewal of ours, and then only the time we know of it is old.
                present = await self.lease.present(self)
                known, self.lease.update_time = self.lease.update_time, present.update_time
                if present.get("commit") == commit_id:
                    return []
                if present.update_time == known:
                    raise
            else:
                self.lease.update_time = renewal.update_time
                return results

    @asynccontextmanager
    async def _request(self, stale: tuple[type[Exception], ...] = ()) -> AsyncIterator[None]:
        """One request: counted, in time, and its errors as ours."""
        try:
            async with asyncio.timeout(self._request_seconds) as limit:
                with self.meter.request(), _translated(stale):
                    yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unavailable(_UNREACHABLE, retry_after=5) from error

    def _batch(self, writes: Sequence[Write]) -> AsyncWriteBatch:
        batch = self.client.batch()
        for write in writes:
            write(batch)
        return batch

    async def _send(self, batch: AsyncWriteBatch) -> Sequence[WriteResult]:
        if self._read_only:
            log.error("write_not_declared", hint="its effect is READ")
            raise PlatformFault("This function declares that it only reads.")
        if sum(write._pb.ByteSize() for write in batch._write_pbs) > MAX_COMMIT_BYTES:  # noqa: SLF001
            raise CommitTooLarge("The database takes no more than 4 MB at once.")
        self.meter.commits += 1
        async with self._request(stale=_STALE):
            results = await batch.commit()
        self.meter.documents_written += len(results)
        return list(results)


def combine_writes(writes: Sequence[Write]) -> Write:
    """One write out of several: where a batch is halved, they are not parted."""

    def add(batch: AsyncWriteBatch) -> None:
        for write in writes:
            write(batch)

    return add


@contextmanager
def _translated(stale: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    try:
        yield
    except _DOWN as error:
        raise Unavailable(_UNREACHABLE, retry_after=5) from error
    except stale as error:
        raise WriteConflict(f"The database refused: {type(error).__name__}.") from error
    except (exceptions.FailedPrecondition, exceptions.NotFound) as error:
        # Of a query: in the cloud an index is missing or still being built, or the database is.
        log.error("query_refused", hint="deploy firestore.indexes.json; check FIRESTORE_DATABASE")
        raise PlatformFault(f"The database refused: {type(error).__name__}.") from error
    except exceptions.GoogleAPICallError as error:
        raise PlatformFault(f"The database refused: {type(error).__name__}.") from error


_AFTERMATH: Final = 0.005
"""Seconds."""


class Connection:
    """What a process keeps open: the client, and what it has learned about the database.

    Attributes:
        caches: What repositories remember for all calls of the process, by repository.
    """

    def __init__(self, project: str, database: str) -> None:
        """Connect on first use; the client belongs to the event loop that runs then."""
        self._project = project
        self._database = database
        self.caches: defaultdict[str, dict[Any, Any]] = defaultdict(dict)

    @cached_property
    def client(self) -> AsyncClient:
        """The Firestore client."""
        return AsyncClient(project=self._project, database=self._database)

    async def aclose(self) -> None:
        """Close the client, if it was ever used."""
        if "client" in self.__dict__:
            # The async client has no public close; its channel must be closed on its own loop, and
            # what gRPC still has to tell that loop must find it open.
            await self.client._firestore_api.transport.close()  # noqa: SLF001
            await asyncio.sleep(_AFTERMATH)

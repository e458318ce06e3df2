"""The Firestore client.

A `Connection` belongs to the process, and a `Database` to one call or one run of a job, whose reads
and writes it counts. A write is not sent by itself: it is a function that adds a change to a batch,
and `Database.commit` sends a batch, all or nothing. A document's snapshot contains the time of its
last change, with which a write can require that the document has not changed since.
"""

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
from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

from shared.core import telemetry
from shared.core.bisection import bisect_batch
from shared.core.errors import Conflict, PlatformFault, Unavailable, Unusable
from shared.core.log import log
from shared.core.target import TargetKind, get_target
from shared.core.telemetry import SpanKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from google.cloud.firestore import (
        AsyncCollectionReference,
        AsyncDocumentReference,
        AsyncQuery,
        AsyncWriteBatch,
        DocumentSnapshot,
    )

    from shared.core.dates import Clock
    from shared.core.meter import Meter
    from shared.core.telemetry import TraceSpan

    Document = DocumentSnapshot[Any]
    """A document as it was when it was read."""
    Write = Callable[[AsyncWriteBatch], object]
    """A function that adds one write to a batch, or several that belong together."""

CONFLICT_SECONDS: Final = 20.0
"""`retry_on_conflict` keeps trying for this long. The call's own deadline may be sooner."""
FIRST_PAUSE: Final = 0.01
"""The maximum pause after the first conflict, in seconds. The pause is random, so that competing
writers do not meet again, and the maximum doubles with each conflict."""
MAX_PAUSE: Final = 0.5
"""The maximum pause after any conflict, in seconds."""

MAX_COMMIT_BYTES: Final = 4_000_000
"""A commit has at most this many bytes. The emulator accepts requests of up to 4 MiB, the cloud of
up to 10 MiB."""

COUNTED_PER_READ: Final = 1_000
"""Firestore counts this many index entries for the price of one read."""

ResultT = TypeVar("ResultT")

_ROWS: Final = "db.response.returned_rows"
"""The attribute of a span with the number of documents in a response (OpenTelemetry)."""
_UNREACHABLE: Final = "The database cannot be reached right now. Nothing is wrong with the call."
_OUTAGE_ERRORS = (
    exceptions.ServiceUnavailable,
    exceptions.DeadlineExceeded,
    exceptions.TooManyRequests,
    exceptions.InternalServerError,
    exceptions.Unknown,
    exceptions.RetryError,
)
"""Errors that a later attempt may not meet. They become `Unavailable`."""
_FILE_ERRORS = (exceptions.Unknown, exceptions.DataLoss, exceptions.PermissionDenied)
"""Errors of embedded databases whose message says what is wrong with the file and what to do."""
_CONFLICTS = (
    exceptions.FailedPrecondition,
    exceptions.Aborted,
    exceptions.NotFound,
    exceptions.AlreadyExists,
)
"""Errors of a commit whose preconditions are not met. They become `WriteConflict`."""


class WriteConflict(Conflict):
    """A commit failed because a document changed, vanished or appeared since it was read."""


class CommitTooLarge(PlatformFault):
    """A commit is larger than the database accepts.

    It is not sent, because Google's client would send it again and again.
    """


class LeaseLost(Conflict):
    """Another run has taken the lease, so the commit failed and nothing was written."""


@dataclass(slots=True)
class Lease:
    """The right of this run to work as a job, as long as no other run may.

    Every commit of the run renews the lease, on the condition that no other run has taken it.

    Attributes:
        job: The name of the lease, by default the job's name.
        holder: The id of this run.
        seconds: How long the lease lasts after the last commit.
        update_time: When the lease's document last changed, as far as this run knows. The next
            renewal requires that it has not changed since.
    """

    job: str
    holder: str
    seconds: float
    update_time: Any
    _reference: AsyncDocumentReference
    _clock: Clock

    def renew_in(self, batch: AsyncWriteBatch) -> str:
        """Add the lease's renewal to a batch. The whole batch then fails if the lease was lost.

        Returns:
            The id of the commit, which the renewal stores in the lease's document.
        """
        expiry = self._clock() + timedelta(seconds=self.seconds)
        commit_id = uuid.uuid4().hex
        renewal = {"expires_at": expiry, "commit": commit_id}
        batch.update(self._reference, renewal, LastUpdateOption(self.update_time))
        return commit_id

    async def load(self, database: Database) -> DocumentSnapshot[Any]:
        """Load the lease's document. Costs one round trip.

        Raises:
            LeaseLost: Another run has taken the lease.
        """
        snapshot = await database.get(self._reference)
        if not snapshot.exists or snapshot.get("holder") != self.holder:
            raise LeaseLost(f"Another run holds the lease of {self.job}; this run stops.")
        return snapshot


class Database:
    """Firestore for one call or one run of a job."""

    def __init__(
        self,
        connection: Connection,
        meter: Meter,
        request_seconds: float | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Use a connection, which opens at the first request.

        Args:
            meter: Counts reads and writes.
            request_seconds: How long to wait for each response. By default, Google's client decides
                and waits a minute or more.
            read_only: Whether to reject writes. In the cloud, the service account's role rejects
                them, too.
        """
        self.meter = meter
        self._connection = connection
        self._request_seconds = request_seconds
        self._read_only = read_only
        self._caches = connection.caches
        self.lease: Lease | None = None
        self._commit_lock = asyncio.Lock()

    @property
    def client(self) -> AsyncClient:
        """The client, which belongs to the running event loop."""
        return self._connection.client

    def cache(self, repository: str) -> dict[Any, Any]:
        """Return a repository's cache, which all calls of the process share.

        Args:
            repository: The name of the cache. The first use creates it.
        """
        return self._caches[repository]

    def collection(self, path: str) -> AsyncCollectionReference:
        """Return the reference to the collection at `path`."""
        return self.client.collection(path)

    def document(self, collection: str, document_id: str) -> AsyncDocumentReference:
        """Return the reference to the document `document_id` of `collection`."""
        return self.client.collection(collection).document(document_id)

    async def get(
        self, reference: AsyncDocumentReference, fields: Sequence[str] | None = None
    ) -> DocumentSnapshot[Any]:
        """Read one document, or only some of its fields.

        The snapshot of a missing document has `exists` False.
        """
        async with self._request("get", reference.parent.id):
            self.meter.documents_read += 1
            return await reference.get(field_paths=fields)

    async def get_all(
        self, references: Sequence[AsyncDocumentReference], fields: Sequence[str] | None = None
    ) -> list[DocumentSnapshot[Any]]:
        """Read several documents, or only some of their fields, in one request.

        Missing documents are left out. The order is not that of the references.
        """
        if not references:
            return []
        async with self._request("get_all", references[0].parent.id) as span:
            self.meter.documents_read += len(references)
            snapshots = self.client.get_all(list(references), field_paths=fields)
            documents = [snapshot async for snapshot in snapshots if snapshot.exists]
            span.set({_ROWS: len(documents)})
            return documents

    async def find(self, query: AsyncQuery | AsyncVectorQuery) -> list[DocumentSnapshot[Any]]:
        """Run a query, and return the documents that match. The query itself sets the limit."""
        async with self._request(*_describe_query(query)) as span:
            snapshots = [snapshot async for snapshot in query.stream()]
            self.meter.documents_read += max(1, len(snapshots))  # no match costs a read, too
            span.set({_ROWS: len(snapshots)})
            return snapshots

    async def count(self, query: AsyncQuery) -> int:
        """Count the matching documents. Costs one read per 1,000 index entries."""
        async with self._request("count", query._parent.id):  # noqa: SLF001 - it has no getter
            [[result]] = await AsyncAggregationQuery(query).count().get()
            self.meter.documents_read += 1 + int(result.value) // COUNTED_PER_READ
            return int(result.value)

    async def commit(self, writes: Iterable[Write]) -> Any:
        """Commit all writes or none. If this run holds a lease, the commit also renews the lease.

        Returns:
            The update time of the documents that changed, or None if there are no writes.

        Raises:
            WriteConflict: A document changed since it was read.
            LeaseLost: Another run has taken the lease.
            CommitTooLarge: The writes are larger than MAX_COMMIT_BYTES.
            PlatformFault: The database is read-only, or rejects the content of a write.
            Unavailable: The database cannot be reached.
        """
        batch = list(writes)
        if not batch:
            return None
        async with self._commit_lock:
            return await self._commit(batch)

    async def commit_skipping_conflicts(self, writes: Sequence[Write]) -> int:
        """Commit the writes whose preconditions are met, and return their number.

        A batch that fails or is too large is halved. A document that changed in the meantime
        therefore costs a few more commits, but the other writes succeed.

        Raises:
            PlatformFault: The database rejects the content of a single write.
        """
        committed_count = 0
        async for batch, outcome in bisect_batch(
            writes, self.commit, (WriteConflict, PlatformFault)
        ):
            if isinstance(outcome, PlatformFault):
                raise outcome
            committed_count += 0 if isinstance(outcome, WriteConflict) else len(batch)
        return committed_count

    async def retry_on_conflict(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat an attempt to read, decide and commit after each write conflict.

        This is optimistic concurrency: unlike a transaction, it locks no documents while the caller
        decides. For requests to a service that is down, use `retry_with_backoff`.

        Args:
            attempt: Reads documents and commits writes on the condition that they are unchanged.

        Raises:
            Unavailable: Every attempt ended in a conflict, and nothing was written.
        """
        pause = FIRST_PAUSE
        deadline = time.monotonic() + CONFLICT_SECONDS
        while time.monotonic() < deadline:
            try:
                return await attempt()
            except WriteConflict:
                await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
                pause = min(2 * pause, MAX_PAUSE)
        message = "Too many writes to the same documents at once: try again."
        raise Unavailable(message, details={"outcome": "nothing_done"}, retry_after=1)

    async def _commit(self, writes: Sequence[Write]) -> Any:
        """Commit the writes, and renew the lease if this run holds one.

        The commit is sent again if it failed only because this run did not know the latest update
        time of its own lease.
        """
        if not self.lease:
            return await self._send(self._build_batch(writes))
        while True:
            batch = self._build_batch(writes)
            commit_id = self.lease.renew_in(batch)
            try:
                self.lease.update_time = await self._send(batch)
            except WriteConflict:
                # Google's client resends a commit whose response was lost, and then the renewal
                # conflicts with itself. So this commit may have succeeded, or an earlier one, after
                # which the lease has a later update time.
                snapshot = await self.lease.load(self)
                expected, self.lease.update_time = self.lease.update_time, snapshot.update_time
                if snapshot.get("commit") == commit_id:
                    # This commit succeeded, and changed all its documents at this time.
                    return self.lease.update_time
                if snapshot.update_time == expected:
                    raise  # The lease is as expected, so a document of `writes` has changed.
            else:
                return self.lease.update_time

    @asynccontextmanager
    async def _request(
        self,
        operation: str,
        collection: str | None = None,
        conflicts: tuple[type[Exception], ...] = (),
    ) -> AsyncIterator[TraceSpan]:
        """Count a request, record it as a span, limit its time and translate its errors.

        Args:
            operation: The name of the operation in the span.
            collection: The id of the last collection in the path. The rest of the path contains
                document ids, which must not be recorded.
            conflicts: The errors to translate to `WriteConflict`.
        """
        attributes = {
            "db.system.name": "gcp.firestore",
            "db.operation.name": operation,
            "db.collection.name": collection,
        }
        name = f"{operation} {collection}" if collection else operation
        with telemetry.span(name, attributes, kind=SpanKind.CLIENT) as span:
            try:
                async with asyncio.timeout(self._request_seconds) as limit:
                    with self.meter.request(), _translate_errors(conflicts):
                        yield span
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise Unavailable(_UNREACHABLE, retry_after=5) from error

    def _build_batch(self, writes: Sequence[Write]) -> AsyncWriteBatch:
        batch = self.client.batch()
        for write in writes:
            write(batch)
        return batch

    async def _send(self, batch: AsyncWriteBatch) -> Any:
        """Send a batch, unless this database is read-only or the batch is too large.

        Returns:
            The time of the commit.
        """
        if self._read_only:
            log.error("write_not_declared", hint="its effect is READ")
            raise PlatformFault("This function declares that it only reads, and may not write.")
        if sum(write._pb.ByteSize() for write in batch._write_pbs) > MAX_COMMIT_BYTES:  # noqa: SLF001
            raise CommitTooLarge("A commit may have at most 4 MB.")
        self.meter.commits += 1
        async with self._request("commit", conflicts=_CONFLICTS) as span:
            results = await batch.commit()
            # By OpenTelemetry's conventions, a single write is not a batch.
            span.set({"db.operation.batch.size": len(results) if len(results) > 1 else None})
        self.meter.documents_written += len(results)
        return batch.commit_time


def get_fields(document: Document | None) -> dict[str, Any]:
    """Return the fields of a document, or an empty dictionary if it does not exist."""
    return (document.to_dict() or {}) if document is not None else {}


def _describe_query(query: AsyncQuery | AsyncVectorQuery) -> tuple[str, str]:
    """Return the name of a query's operation, and the id of the collection that it searches."""
    if isinstance(query, AsyncVectorQuery):
        return "find_nearest", query._nested_query._parent.id  # noqa: SLF001 - it has no getter
    return "query", query._parent.id  # noqa: SLF001 - the same


@contextmanager
def _translate_errors(conflicts: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate the errors of Google's client to Carrel's.

    Raises:
        Unavailable: The database cannot be reached.
        Unusable: Its file cannot be read or written.
        WriteConflict: The error is one of `conflicts`.
        PlatformFault: The database rejects the request for another reason.
    """
    try:
        yield
    except _list_file_errors() as error:
        raise Unusable(error.message) from error
    except _OUTAGE_ERRORS as error:
        raise Unavailable(_UNREACHABLE, retry_after=5) from error
    except conflicts as error:
        raise WriteConflict(f"The database refused: {type(error).__name__}.") from error
    except (exceptions.FailedPrecondition, exceptions.NotFound) as error:
        # In the cloud, a query fails like this if an index or the database is missing or not ready.
        log.error("query_refused", hint="deploy firestore.indexes.json")
        raise PlatformFault(f"The database refused: {type(error).__name__}.") from error
    except exceptions.GoogleAPICallError as error:
        raise PlatformFault(f"The database refused: {type(error).__name__}.") from error


def _list_file_errors() -> tuple[type[exceptions.GoogleAPICallError], ...]:
    target = get_target()
    return _FILE_ERRORS if target and target.kind is TargetKind.EMBEDDED else ()


_CLOSING_SECONDS: Final = 0.005
"""gRPC may send callbacks to the event loop for this long after its channel is closed."""


def _make_client(project: str, database: str) -> AsyncClient:
    return AsyncClient(project=project, database=database)


class Connection:
    """The Firestore client of a process and the caches of its repositories.

    Attributes:
        caches: The cache of each repository, shared by all calls of the process.
    """

    def __init__(self, project: str, database: str) -> None:
        """Prepare a connection. The client connects on first use, and belongs to that event loop.

        Args:
            project: The id of the Google Cloud project.
            database: The name of the Firestore database.
        """
        self._project = project
        self._database = database
        self.caches: defaultdict[str, dict[Any, Any]] = defaultdict(dict)

    @cached_property
    def client(self) -> AsyncClient:
        """The Firestore client.

        Raises:
            PlatformFault: This process was not told which database is meant.
            Unavailable: The database cannot be opened. The message says what to do.
        """
        target = get_target()
        if target is None:
            raise PlatformFault("No database is chosen for this process.")
        make_client = target.make_client or _make_client
        return make_client(self._project, self._database)

    async def aclose(self) -> None:
        """Close the client, if it was used."""
        if "client" in self.__dict__:
            # The async client has no public close. Its channel must be closed on its own loop, and
            # the loop must run until gRPC's last callbacks have arrived.
            await self.client._firestore_api.transport.close()  # noqa: SLF001
            await asyncio.sleep(_CLOSING_SECONDS)

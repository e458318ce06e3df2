"""The only door to Firestore.

A `Database` belongs to one call or one run of a job, whose reads and writes it counts. A write is
not sent by itself: it is a value, and `Database.commit` sends several, all or nothing. A document
contains the time of its last change, with which a write can require that it has not changed since.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.api_core import exceptions

from shared.core import telemetry
from shared.core.bisection import bisect_batch
from shared.core.blocks import split
from shared.core.errors import Conflict, PlatformFault, Unavailable, Unusable
from shared.core.log import log
from shared.core.target import TargetKind, get_target
from shared.core.telemetry import SpanKind
from shared.firestore.writes import Update, Write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence

    from shared.core.dates import Clock
    from shared.core.meter import Meter
    from shared.core.telemetry import TraceSpan
    from shared.firestore.connection import Connection
    from shared.firestore.documents import Document, Reference
    from shared.firestore.queries import Query
    from shared.firestore.writes import UpdateTime

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


class InvalidContent(PlatformFault):
    """The database rejects the content of a request, such as a value that is too long."""


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
    update_time: UpdateTime
    _reference: Reference
    _clock: Clock

    def renew(self) -> Update:
        """Return the write that renews the lease. Its commit fails if the lease was lost.

        The field `commit` is a new id, by which this run recognises its own commit.
        """
        expiry = self._clock() + timedelta(seconds=self.seconds)
        renewal = {"expires_at": expiry, "commit": uuid.uuid4().hex}
        return Update(self._reference, renewal, self.update_time)

    async def load(self, database: Database) -> Document:
        """Load the lease's document. Costs one round trip.

        Raises:
            LeaseLost: Another run has taken the lease.
        """
        document = await database.get(self._reference)
        if not document.exists or document.get("holder") != self.holder:
            raise LeaseLost(f"Another run holds the lease of {self.job}; this run stops.")
        return document


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
            connection: What requests are sent through.
            meter: Counts reads and writes.
            request_seconds: How long to wait for each response. By default, Google's client decides
                and waits a minute or more.
            read_only: Whether to reject writes. In the cloud, the service account's role rejects
                them, too.
        """
        self.meter = meter
        self.connection = connection
        self._request_seconds = request_seconds
        self._read_only = read_only
        self._caches = connection.caches
        self.lease: Lease | None = None
        self._commit_lock = asyncio.Lock()

    def cache(self, repository: str) -> dict[Any, Any]:
        """Return a repository's cache, which all calls of the process share."""
        return self._caches[repository]

    async def get(self, reference: Reference, fields: Sequence[str] | None = None) -> Document:
        """Read one document, or only some of its fields. A missing one has `exists` False."""
        async with self._request("get", reference.collection_id):
            self.meter.documents_read += 1
            [document] = await self.connection.load([reference], fields)
            return document

    async def get_all(
        self, references: Sequence[Reference], fields: Sequence[str] | None = None
    ) -> list[Document]:
        """Read several documents, or only some of their fields, in one request.

        Missing documents are left out. The order is not that of the references.
        """
        if not references:
            return []
        async with self._request("get_all", references[0].collection_id) as span:
            self.meter.documents_read += len(references)
            loaded = await self.connection.load(references, fields)
            documents = [document for document in loaded if document.exists]
            span.set({_ROWS: len(documents)})
            return documents

    async def find(self, query: Query) -> list[Document]:
        """Run a query, and return the documents that match. The query itself sets the limit."""
        async with self._request(query.operation, query.collection_id) as span:
            documents = await self.connection.run(query)
            self.meter.documents_read += max(1, len(documents))  # no match costs a read, too
            span.set({_ROWS: len(documents)})
            return documents

    async def iterate(self, query: Query, page_size: int) -> AsyncIterator[list[Document]]:
        """Yield the documents that match, page by page. The query names their order, and no limit.

        Each page costs one round trip. Documents may change between two pages.
        """
        page = await self.find(query.limit(page_size))
        while page:
            yield page
            if len(page) < page_size:
                return
            page = await self.find(query.start_after(page[-1]).limit(page_size))

    async def count(self, query: Query) -> int:
        """Count the matching documents. Costs one read per 1,000 index entries."""
        async with self._request("count", query.collection_id):
            count = await self.connection.count(query)
            self.meter.documents_read += 1 + count // COUNTED_PER_READ
            return count

    async def commit(self, writes: Iterable[Write]) -> UpdateTime:
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

    async def commit_skipping_conflicts(
        self, writes: Sequence[Write], at_once: int | None = None
    ) -> int:
        """Commit the writes whose preconditions are met, and return their number.

        A batch that fails or is too large is halved. A document that changed in the meantime
        therefore costs a few more commits, but the other writes succeed.

        Args:
            at_once: The greatest number of writes in a commit. By default, all are in one.

        Raises:
            PlatformFault: The database rejects the content of a single write.
        """
        committed_count = 0
        for block in split(writes, at_once or max(1, len(writes))):
            async for batch, outcome in bisect_batch(
                block, self.commit, (WriteConflict, PlatformFault)
            ):
                if isinstance(outcome, PlatformFault):
                    raise outcome
                committed_count += 0 if isinstance(outcome, WriteConflict) else len(batch)
        return committed_count

    async def retry_on_conflict(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat an attempt to read, decide and commit after each write conflict.

        This is optimistic concurrency: unlike a transaction, it locks no documents while the caller
        decides. For requests to a service that is down, use `retry_with_backoff`.

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

    async def _commit(self, writes: Sequence[Write]) -> UpdateTime:
        """Commit the writes, and renew the lease if this run holds one.

        The commit is sent again if it failed only because this run did not know the latest update
        time of its own lease.
        """
        if not self.lease:
            return await self._send(writes)
        while True:
            renewal = self.lease.renew()
            try:
                self.lease.update_time = await self._send([*writes, renewal])
            except WriteConflict:
                # Google's client resends a commit whose response was lost, and then the renewal
                # conflicts with itself. So this commit may have succeeded, or an earlier one, after
                # which the lease has a later update time.
                document = await self.lease.load(self)
                expected, self.lease.update_time = self.lease.update_time, document.update_time
                if document.get("commit") == renewal.fields["commit"]:
                    # This commit succeeded, and changed all its documents at this time.
                    return self.lease.update_time
                if document.update_time == expected:
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

    async def _send(self, writes: Sequence[Write]) -> UpdateTime:
        """Send writes, unless this database is read-only or they are too large.

        Returns:
            The time of the commit.
        """
        if self._read_only:
            log.error("write_not_declared", hint="its effect is READ")
            raise PlatformFault("This function declares that it only reads, and may not write.")
        request = self.connection.build_commit(writes)
        count = len(request.writes)
        if request.ByteSize() > MAX_COMMIT_BYTES:
            raise CommitTooLarge(f"A commit may have at most {MAX_COMMIT_BYTES:,} bytes.")
        self.meter.commits += 1
        async with self._request("commit", conflicts=_CONFLICTS) as span:
            update_time = await self.connection.commit(request)
            # By OpenTelemetry's conventions, a single write is not a batch.
            span.set({"db.operation.batch.size": count if count > 1 else None})
        self.meter.documents_written += count
        return update_time


@contextmanager
def _translate_errors(conflicts: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate the errors of Google's client to Carrel's.

    Raises:
        Unavailable: The database cannot be reached.
        Unusable: Its file cannot be read or written.
        WriteConflict: The error is one of `conflicts`.
        InvalidContent: The database rejects the content of the request.
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
    except exceptions.InvalidArgument as error:
        raise InvalidContent("The database refused: InvalidArgument.") from error
    except exceptions.GoogleAPICallError as error:
        raise PlatformFault(f"The database refused: {type(error).__name__}.") from error


def _list_file_errors() -> tuple[type[exceptions.GoogleAPICallError], ...]:
    target = get_target()
    return _FILE_ERRORS if target and target.kind is TargetKind.EMBEDDED else ()

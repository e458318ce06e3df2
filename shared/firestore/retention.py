"""How long documents are kept, and how they are deleted after their dependents.

`expires_at` says how long something is valid, and a `Retention` how long it is kept. Firestore
deletes documents without dependents by their field `purge_at` (a TTL policy), up to three days
late. The job `purge` erases the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.dates import from_microseconds
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Delete, delete_if_unchanged, put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime, timedelta

    from shared.firestore.database import Database
    from shared.firestore.documents import Document, Reference
    from shared.firestore.writes import Write

    BuildWrites = Callable[[Document], Awaitable[Sequence[Write]]]
    """Builds writes that fail if a document has changed since it was read."""

PURGE_AT: Final = "purge_at"
ERASURE_BEGUN: Final = from_microseconds(0)
"""Set when the erasure of a document begins, so that it stays due, and a later run of `purge`
continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """Documents that depend on another one, and are deleted before it.

    Attributes:
        name: What a run counts them as.
        query: Builds the query for them, given what they depend on.
        commit_size: How many of them one commit deletes. Firestore rejects commits above 10 MiB,
            and counts the contents of deleted documents and their index entries.
    """

    name: str
    query: Callable[[Reference], Query]
    commit_size: int

    @classmethod
    def below(cls, name: str, commit_size: int) -> Dependents:
        """Return the documents in a subcollection."""
        return cls(
            name=name,
            query=lambda reference: Query(f"{reference.path}/{name}"),
            commit_size=commit_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the documents of a collection are kept.

    Attributes:
        title: What the documents are, for people.
        collection: The id of their collection.
        duration: How long they are kept.
        since: The field with the time from which they are kept. By default, their field `purge_at`
            already holds the time at which that ends.
        in_group: Whether there are many collections with this id, such as one for each user.
        dependents: What depends on a document, in the order of deletion.
        contents: The fields that are deleted, if the rest of the document stays for good.
    """

    title: str
    collection: str
    duration: timedelta
    since: str = PURGE_AT
    in_group: bool = False
    dependents: tuple[Dependents, ...] = ()
    contents: tuple[str, ...] = ()

    @property
    def period(self) -> str:
        """The time in words, such as `30 days`."""
        return f"{self.duration.days} days"

    def compute_purge_at(self, start: datetime) -> datetime:
        """Return the time until which a document is kept."""
        return start + self.duration

    def build_due_query(self, now: datetime) -> Query:
        """Build the query for the documents that are no longer kept, the oldest first."""
        query = Query(self.collection, self.in_group).where(self.since, "<=", self._get_cutoff(now))
        return query.order_by(self.since).select([self.since])

    def is_due(self, document: Document, now: datetime) -> bool:
        """Return whether a document exists and is no longer kept."""
        start = document.fields.get(self.since)
        return start is not None and start <= self._get_cutoff(now)

    def _get_cutoff(self, now: datetime) -> datetime:
        return now if self.since == PURGE_AT else now - self.duration


@dataclass(frozen=True, slots=True)
class Erasure:
    """The deletion of one document that is no longer kept.

    The commit that deletes the first of its dependents marks the document, so that nobody restores
    it, and a later run continues. Every commit fails if the document is no longer due: it was
    restored, or stored again after another run had erased it.
    """

    database: Database
    retention: Retention
    reference: Reference
    now: datetime

    async def begin(self) -> bool:
        """Mark the document even if it is still kept. Return whether it exists."""

        async def attempt() -> bool:
            document = await self.database.get(self.reference, [self.retention.since])
            if document.exists:
                await self.database.commit([self._build_mark(document)])
            return document.exists

        return await self.database.retry_on_conflict(attempt)

    async def complete(
        self, build_last_writes: BuildWrites | None = None
    ) -> AsyncIterator[tuple[str, int]]:
        """Delete what hangs on the document, and then the document, or its contents alone.

        Args:
            build_last_writes: What the last commit writes. By default, it deletes the document.
                Without any writes, the document stays for now.

        Yields:
            What each commit deleted, and how many of them.
        """
        retention = self.retention
        for dependents in retention.dependents:
            query = dependents.query(self.reference).select([]).limit(dependents.commit_size)
            while page := await self.database.find(query):
                if not await self._delete(page):
                    return  # It was restored, or stored again.
                yield dependents.name, len(page)
        if await self._commit(build_last_writes or self._build_last_writes):
            yield retention.collection, 1

    async def _delete(self, dependents: Sequence[Document]) -> bool:
        async def build_writes(document: Document) -> Sequence[Write]:
            deletions = [Delete(dependent.reference) for dependent in dependents]
            return [self._build_mark(document), *deletions]

        return await self._commit(build_writes, [self.retention.since])

    def _build_mark(self, document: Document) -> Write:
        contents = dict.fromkeys(self.retention.contents, DELETE_FIELD)
        return put_if_unchanged(document, {self.retention.since: ERASURE_BEGUN} | contents)

    async def _build_last_writes(self, document: Document) -> Sequence[Write]:
        if not self.retention.contents:
            return [delete_if_unchanged(document)]
        obsolete = (*self.retention.contents, self.retention.since)
        return [put_if_unchanged(document, dict.fromkeys(obsolete, DELETE_FIELD))]

    async def _commit(self, build_writes: BuildWrites, fields: Sequence[str] | None = None) -> bool:
        """Commit writes if the document is due. Return whether anything was written."""

        async def attempt() -> bool:
            document = await self.database.get(self.reference, fields)
            if not self.retention.is_due(document, self.now):
                return False
            writes = await build_writes(document)
            await self.database.commit(writes)
            return bool(writes)

        return await self.database.retry_on_conflict(attempt)

"""Links in Firestore: `links/{source_id}`. The job `ingest` fetches the pages of saved ones.

The page of a link becomes the source with the same id. The record of a failed link is kept until
the page is fetched or the user cancels the link, and the record of a stored link for some time. In
the commands of `carrel jobs`, failed links are called dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Create, Delete, Write, put_if_unchanged
from shared.links.model import Link, LinkState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.firestore.database import Database

COLLECTION: Final = "links"
_BATCH_SIZE: Final = 200
"""One commit changes at most this many links."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CODEC: Final = Codec(Link, "source_id", readers={"state": LinkState})
_WITHOUT_PAGE: Final = [name for name in _CODEC.names.values() if name != "page"]
"""The stored fields for lists, without the one that may have a megabyte."""


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link as it was read.

    Attributes:
        link: The link, or None if it is not stored.
        snapshot: The link's document. A write fails if the document has changed since.
    """

    link: Link | None
    snapshot: Document

    def build_update_write(self, link: Link) -> Write:
        """Build the write that replaces the link, or stores it for the first time."""
        fields = _CODEC.write(link)
        if self.snapshot.exists:
            fields |= dict.fromkeys(_CODEC.list_absent_names(link), DELETE_FIELD)
        return put_if_unchanged(self.snapshot, fields)

    def build_deletion_write(self) -> Write:
        """Build the write that deletes the link."""
        return Delete(self.snapshot.reference, self.snapshot.update_time)


class SavedLinks:
    """Reads and changes links."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, source_id: str) -> StoredLink:
        """Load the link whose page becomes the source with this id. Costs one round trip."""
        return _to_stored(await self._database.get(Reference(COLLECTION, source_id)))

    async def list_cancellable(self, source_ids: Iterable[str]) -> frozenset[str]:
        """Return the ids of the links that `save_link` can cancel. Costs one round trip, if any."""
        references = [Reference(COLLECTION, source_id) for source_id in source_ids]
        snapshots = await self._database.get_all(references, ["state"])
        kept = {LinkState.STORED, LinkState.LISTED}
        return frozenset(snapshot.id for snapshot in snapshots if snapshot.get("state") not in kept)

    async def list_due(self, now: datetime, limit: int) -> list[StoredLink]:
        """Load the links to fetch now, the longest due first. Costs one round trip."""
        query = Query(COLLECTION).where("due_at", "<=", now).order_by("due_at").limit(limit)
        return [_to_stored(snapshot) for snapshot in await self._database.find(query)]

    async def load_due(self, source_ids: Iterable[str], now: datetime) -> list[StoredLink]:
        """Load those of these links that are due. Costs one round trip."""
        references = [Reference(COLLECTION, source_id) for source_id in source_ids]
        stored = map(_to_stored, await self._database.get_all(references))
        return [item for item in stored if item.link and item.link.is_due(now)]

    async def list_newest(self, limit: int) -> list[Link]:
        """Load the links that somebody asked for last, without pages. One round trip."""
        newest = Query(COLLECTION).order_by("requested_at", descending=True)
        query = newest.select(_WITHOUT_PAGE).limit(limit)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def count_waiting(self) -> int:
        """Count the links that wait to be fetched, due or not. Costs one round trip."""
        return await self._database.count(_state_query(LinkState.WAITING))

    async def count_listed(self) -> int:
        """Count the links that nobody has asked for yet. Costs one round trip."""
        return await self._database.count(_state_query(LinkState.LISTED))

    async def load_all(self) -> list[Link]:
        """Load all links, without pages. Costs one round trip."""
        query = Query(COLLECTION).select(_WITHOUT_PAGE)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def request_listed(
        self,
        now: datetime,
        folder: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Queue listed links, those that were saved last first, and return the ids of due ones.

        Links that are due already come first and count towards the limit: an interrupted run left
        them.
        """
        query = _state_query(LinkState.WAITING).select(_WITHOUT_PAGE)
        waiting = map(_to_link, await self._database.find(query))
        due = [link for link in waiting if link.is_due(now) and link.matches(folder, tag)]
        ids = [link.source_id for link in due[:limit]]
        listed = await self.load_listed(folder, tag)
        new = listed[: None if limit is None else limit - len(ids)]
        writes = [stored.build_update_write(link.request(now)) for stored, link in new]
        await self._database.commit_skipping_conflicts(writes, _BATCH_SIZE)
        return [*ids, *(link.source_id for _, link in new)]

    async def drop_listed(self, folder: str | None = None, tag: str | None = None) -> int:
        """Delete listed links, and return their number."""
        listed = await self.load_listed(folder, tag)
        writes = [stored.build_deletion_write() for stored, _ in listed]
        return await self._database.commit_skipping_conflicts(writes, _BATCH_SIZE)

    async def load_listed(
        self, folder: str | None = None, tag: str | None = None
    ) -> list[tuple[StoredLink, Link]]:
        """Load listed links, those that were saved last first. Costs one round trip."""
        snapshots = await self._database.find(_state_query(LinkState.LISTED))
        listed = [
            (StoredLink(link, snapshot), link)
            for snapshot in snapshots
            if (link := _to_link(snapshot)).matches(folder, tag)
        ]
        listed.sort(key=lambda item: item[1].saved_at or _LONG_AGO, reverse=True)
        return listed

    async def list_dead_letters(self, limit: int) -> list[Link]:
        """Load up to `limit` links that could not be fetched, without pages. One round trip."""
        query = _state_query(LinkState.FAILED).select(_WITHOUT_PAGE).limit(limit)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def list_tried(self, limit: int) -> list[Link]:
        """Load links whose page could not be fetched the last time. Costs one round trip."""
        query = Query(COLLECTION).where("tries", ">", 0).select(_WITHOUT_PAGE).limit(limit)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def retry(self, now: datetime) -> int:
        """Queue all links that could not be fetched for another attempt. Return their number."""
        query = _state_query(LinkState.FAILED).limit(_BATCH_SIZE)
        count = 0
        while failed := [_to_stored(snapshot) for snapshot in await self._database.find(query)]:
            writes = [
                stored.build_update_write(stored.link.request(now))
                for stored in failed
                if stored.link
            ]
            count += await self._database.commit_skipping_conflicts(writes)
        return count


def _to_link(snapshot: Document) -> Link:
    return _CODEC.read(snapshot.id, snapshot.fields)


def _to_stored(snapshot: Document) -> StoredLink:
    return StoredLink(_to_link(snapshot) if snapshot.exists else None, snapshot)


def _state_query(state: LinkState) -> Query:
    return Query(COLLECTION).where("state", "==", state.value)


def build_listing_write(link: Link) -> Write:
    """Build the write that stores a listed link. It fails if the link is stored already."""
    return Create(Reference(COLLECTION, link.source_id), _CODEC.write(link))

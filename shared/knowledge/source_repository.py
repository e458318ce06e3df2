"""`sources/{source_id}`: books, articles, documents and notes, without their chunks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.core.dates import from_microseconds, to_microseconds
from shared.firestore.codec import Codec, added_field
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import Retention
from shared.firestore.values import DELETE_FIELD
from shared.index.facets import Facet, Kind, make_named_facet
from shared.knowledge.overrides import EDITABLE, read_values
from shared.knowledge.source import SOURCE_FIELDS, NoteFields, SourceFields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.core.dates import DateSpan
    from shared.firestore.database import Database
    from shared.knowledge.source import Source

    SourceCursor = tuple[int | str, str]
    """A position in a list of sources: the sort key and the id of a source."""

COLLECTION: Final = "sources"
MOVING: Final = "forgotten_at"
"""The field that a source has while it is being forgotten or restored. Until then, no other call or
job changes the source."""
FORMER_REVISIONS: Final = Retention(
    title="former revisions of notes", collection="note_revisions", duration=timedelta(days=30)
)
RESTORED: Final = "restored"
"""The field of a source that its owner restored after its origin had lost it. Ingest does not
forget such a source again."""
_KEY_LENGTH: Final = 300
"""The number of characters of a title by which sources are sorted. Cursors contain them, too."""


class SourceOrder(StrEnum):
    """The order of a list of sources."""

    RECENT = "recent"
    TITLE = "title"


_ORDERS: Final = {SourceOrder.RECENT: ("updated_at", True), SourceOrder.TITLE: ("title_key", False)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource(SourceFields):
    """A stored source, without its text.

    Attributes:
        facets: The ids of the facets of its author, its category, and the tags and languages of
            it and its chunks.
        title_key: The title in the form used for comparison and sorting.
        revision: The number of its revision. Each edit increments it. A note begins with 1, any
            other source with None.
        origin_values: What its origin says of the fields that the owner set, by field name.
        links_to: The ids of the sources that its text links to, some of which may not be stored.
            Lists of sources do not have it.
        unread: What its file has that could not be read as text.
        markdown: True if the text is Markdown.
    """

    chunk_count: int
    updated_at: datetime
    facets: frozenset[str] = frozenset()
    title_key: str = ""
    created_at: datetime | None = field(default=None, compare=False)
    revision: int | None = added_field()
    origin_values: Mapping[str, Any] | None = added_field()
    links_to: tuple[str, ...] | None = added_field()
    unread: str | None = added_field()
    markdown: bool | None = added_field()

    @property
    def edited(self) -> list[str]:
        """The names of the fields that the owner set."""
        return list(self.origin_values or ())

    def cursor(self, order: SourceOrder) -> SourceCursor:
        """Return the cursor after this source in a list with this order."""
        match order:
            case SourceOrder.RECENT:
                return to_microseconds(self.updated_at), self.source_id
            case SourceOrder.TITLE:
                return self.title_key, self.source_id


STORED_AS: Final = {"origin": "source", "category": "type", "source_url": "url"}
"""The stored names of those fields of a source whose names in code differ."""
READ_AGAIN: Final = {"content_hash": ""}
"""The update of a source that makes the next ingest compare all its chunks."""
REWRITE: Final = {"rewriting": True}
"""The update of a source that makes the index job rewrite the chunks that differ from it, and
collect its facets again."""
OVERRIDE_FIELDS: Final = ("origin_values", *EDITABLE)
"""The stored fields from which `read_overrides` reads what the owner set."""
_CODEC: Final = Codec(
    StoredSource, "source_id", stored_as=STORED_AS, readers={"origin_values": read_values}
)
_NOTE: Final = Codec(NoteFields)
_INGESTED: Final = (*SOURCE_FIELDS, "links_to", "unread", "markdown")
_LISTED: Final = tuple(name for name in _CODEC.stored_names if name != "links_to")
"""The stored fields to select for lists: a source may have hundreds of links."""


def build_source_fields(source: Source) -> dict[str, Any]:
    """Return the stored fields of a source."""
    return _CODEC.write(source, _INGESTED)


def build_note_fields(note: NoteFields) -> dict[str, Any]:
    """Return the stored fields that make a source a note."""
    return _NOTE.write(note)


def build_edited_fields(source: StoredSource) -> dict[str, Any]:
    """Build the part of an update that stores what the owner set, or deletes what was reset."""
    names = (*EDITABLE, "origin_values", "revision", "saved_with")
    absent = dict.fromkeys(_CODEC.list_absent_names(source, names), DELETE_FIELD)
    return _CODEC.write(source, names) | absent


def build_origin_fields(origin_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored field `origin_values`, or no field if the owner set nothing."""
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in origin_values.items()
    }
    return {"origin_values": values} if values else {}


def read_overrides(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read what the owner set of a source, by field name, from its `OVERRIDE_FIELDS`."""
    return read_values({name: data[name] for name in data.get("origin_values") or ()})


def build_removed_fields(source: Source) -> dict[str, Any]:
    """Build the part of an update that deletes optional fields that the source does not have."""
    return dict.fromkeys(_CODEC.list_absent_names(source, _INGESTED), DELETE_FIELD)


class Sources:
    """Reads sources. `Ingestion` writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, source_id: str) -> StoredSource | None:
        """Load a source, or None. Costs one round trip."""
        return next(iter(await self._load([source_id], _CODEC.stored_names)), None)

    async def get_with_note(self, source_id: str) -> tuple[StoredSource | None, NoteFields | None]:
        """Load a source and, if it is a note, the fields of the note. Costs one round trip."""
        fields = [*_CODEC.stored_names, *_NOTE.stored_names]
        snapshots = await self._database.get_all([Reference(COLLECTION, source_id)], sorted(fields))
        return next(map(_to_source_with_note, snapshots), (None, None))

    async def get_all(self, source_ids: Sequence[str]) -> list[StoredSource]:
        """Load these sources in this order, without missing ones. Costs one round trip."""
        return await self._load(source_ids, _LISTED)

    async def _load(self, source_ids: Sequence[str], fields: Sequence[str]) -> list[StoredSource]:
        references = [Reference(COLLECTION, source_id) for source_id in source_ids]
        snapshots = await self._database.get_all(references, fields)
        sources = {snapshot.id: to_source(snapshot) for snapshot in snapshots}
        return [sources[source_id] for source_id in source_ids if source_id in sources]

    async def load_page(
        self,
        order: SourceOrder,
        limit: int,
        facet: Facet | None = None,
        after: SourceCursor | None = None,
    ) -> list[StoredSource]:
        """Load a page of sources. Costs one round trip.

        Args:
            order: The order: last changed first, or by title.
            facet: A facet that the sources must have: an author, a category or a tag.
            after: The cursor of the previous page's last source.
        """
        query = list_query(order, limit, facet, after)
        return [to_source(snapshot) for snapshot in await self._database.find(query)]

    async def load_after(
        self, source_id: str | None, limit: int
    ) -> list[tuple[StoredSource, NoteFields | None]]:
        """Load the next sources by id, those that are notes with the fields of a note.

        Costs one round trip.

        Args:
            source_id: The last source of the previous page, or None for the first page.
        """
        fields = [*_CODEC.stored_names, *_NOTE.stored_names]
        query = sources_query().select(fields).limit(limit)
        if source_id:
            query = query.start_after({"__name__": Reference(COLLECTION, source_id)})
        return [_to_source_with_note(snapshot) for snapshot in await self._database.find(query)]

    async def list_by_title_prefix(self, beginning: str, limit: int) -> list[StoredSource]:
        """Load the sources whose title begins with a prefix, in any case. Costs one round trip."""
        query = title_prefix_query(make_title_key(beginning), limit)
        return [to_source(snapshot) for snapshot in await self._database.find(query)]

    async def list_linking_to(self, source_id: str, limit: int) -> list[StoredSource]:
        """Load sources that link to a source, sorted by id. Costs one round trip."""
        query = linking_query(source_id, limit)
        return [to_source(snapshot) for snapshot in await self._database.find(query)]

    async def list_added(self, span: DateSpan, limit: int) -> tuple[int, list[StoredSource]]:
        """Count the sources that were first stored in these days, and load the newest of them.

        Costs one round trip.
        """
        query = added_query(span)
        count, snapshots = await asyncio.gather(
            self._database.count(query), self._database.find(query.select(_LISTED).limit(limit))
        )
        return count, [to_source(snapshot) for snapshot in snapshots]

    async def count(self, facet: Facet | None = None) -> int:
        """Count the sources that have a facet, or all. Costs one round trip."""
        query = sources_query()
        if facet:
            query = Query(COLLECTION).where("facets", "array_contains", facet.id)
        return await self._database.count(query)


def make_title_key(title: str) -> str:
    """Return the sort key of a title, or of its beginning."""
    return make_named_facet(Kind.TITLE, title).key[:_KEY_LENGTH]


def list_query(
    order: SourceOrder,
    limit: int,
    facet: Facet | None,
    after: SourceCursor | None,
) -> Query:
    """Build the query for a page of sources. Ids are sorted in the same direction as sort keys."""
    field, descending = _ORDERS[order]
    query = Query(COLLECTION).order_by(field, descending=descending)
    query = query.order_by("__name__", descending=descending)
    if facet:
        query = query.where("facets", "array_contains", facet.id)
    if after:
        value = from_microseconds(int(after[0])) if order is SourceOrder.RECENT else after[0]
        query = query.start_after({field: value, "__name__": Reference(COLLECTION, after[1])})
    return query.select(_LISTED).limit(limit)


def title_prefix_query(prefix: str, limit: int) -> Query:
    """Build the query for the sources whose sort key begins with a prefix."""
    return (
        Query(COLLECTION)
        .where("title_key", ">=", prefix)
        .where("title_key", "<", prefix + "\U0010ffff")
        .order_by("title_key")
        .select(_LISTED)
        .limit(limit)
    )


def linking_query(source_id: str, limit: int) -> Query:
    """Build the query for the sources that link to a source."""
    return (
        Query(COLLECTION)
        .where("links_to", "array_contains", source_id)
        .select(_LISTED)
        .limit(limit)
    )


def added_query(span: DateSpan) -> Query:
    """Build the query for the sources that were first stored in these days, newest first."""
    query = Query(COLLECTION).where("created_at", ">=", span.start)
    return query.where("created_at", "<=", span.end).order_by("created_at", descending=True)


def sources_query() -> Query:
    """Build the query for all sources, sorted by id."""
    return Query(COLLECTION).order_by("__name__")


def to_source(snapshot: Document) -> StoredSource:
    """Read a source from its document."""
    return _CODEC.read(snapshot.id, snapshot.fields)


def _to_source_with_note(snapshot: Document) -> tuple[StoredSource, NoteFields | None]:
    data = snapshot.fields
    return to_source(snapshot), _NOTE.load(data) if "saved_by" in data else None


def make_revisions_path(source_id: str) -> str:
    """Return the path of the former revisions of a note."""
    return f"{COLLECTION}/{source_id}/{FORMER_REVISIONS.collection}"

"""`meta/map` and `map/{number}-{page}`: the map of the knowledge base, without any text.

A page maps chunk ids to points of six bytes. The page of a chunk follows from a hash of its id, so
that pages are random samples, and that a point is added or removed without a read.

The cluster job draws a new map into pages of their own. Then one write makes `meta/map` describe
them, and the former pages are deleted. So readers see one map or the other. Chunks may be deleted
while a map is drawn: `meta/map` announces its pages before the chunks are read, and whoever deletes
a chunk also notes the hash of its id there, in `gone`.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, ArrayUnion, Increment

from shared.firestore.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncDocumentReference, AsyncQuery

    from shared.firestore.database import Database, Write

COLLECTION: Final = "map"
POINTS_PER_PAGE: Final = 1_000
"""A new map has about this many points on a page."""
MAX_POINTS_PER_PAGE: Final = 4_000
"""No points are added to a map that has this many points on a page. With the longest ids, that is
0.9 MB, and a document may have 1 MiB."""
PAGES_PER_COMMIT: Final = 8
_POINT: Final = struct.Struct("<HHH")
_PATH: Final = ("meta", "map")
_HASH_BYTES: Final = 7
_MAX_READS: Final = 3
"""How often a reader begins anew, if a new map replaces the one that it reads."""


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A point: its coordinates, and the number of its cluster on the map, or -1."""

    x: int
    y: int
    cluster: int

    def pack(self) -> bytes:
        """Return the point in six bytes."""
        return _POINT.pack(self.x, self.y, self.cluster + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCluster:
    """A cluster on the map, and what new points in it need.

    Attributes:
        x: The horizontal coordinate of its centre.
        y: The vertical coordinate.
        size: The number of its chunks; 0 if it was deleted.
        radius: The radius of its disc.
        mean_x: The mean projection of its chunks on the horizontal axis.
        mean_y: The mean projection on the vertical axis.
        scale: The factor by which differences from the mean are multiplied.
    """

    cluster_id: str
    name: str
    size: int
    x: float
    y: float
    radius: float
    mean_x: float
    mean_y: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeMap:
    """What `meta/map` says of a map.

    Attributes:
        number: Its number; each map has the number after the former one.
        pages: The number of its pages.
        run_id: The clustering that it shows.
        model: The embedding model of the vectors.
        made_at: When it was drawn.
        axes: The two axes, as single-precision floats, little endian.
        clusters: Its clusters. Points name them by their number in this order.
        drawn: The number of points that it was drawn with.
        added: The number of points added since.
    """

    number: int
    pages: int
    run_id: str
    model: str
    made_at: datetime
    axes: bytes
    clusters: tuple[MapCluster, ...]
    drawn: int
    added: int = 0

    @property
    def room(self) -> int:
        """How many more points its pages take."""
        return self.pages * MAX_POINTS_PER_PAGE - self.drawn - self.added


@dataclass(frozen=True, slots=True)
class MapDraft:
    """A map that is being drawn."""

    number: int
    pages: int


@dataclass(frozen=True, slots=True)
class MapSample:
    """Points of a map.

    Attributes:
        points: The packed points by chunk id.
        total: The number of points of the whole map; estimated if not all pages were read.
    """

    points: dict[str, bytes]
    total: int


_CLUSTER: Final = Codec(MapCluster)


def _read_clusters(data: Iterable[Mapping[str, Any]]) -> tuple[MapCluster, ...]:
    return tuple(map(_CLUSTER.load, data))


_MAP: Final = Codec(KnowledgeMap, readers={"clusters": _read_clusters})


class Maps:
    """Reads, draws and changes the map."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def load(self) -> KnowledgeMap | None:
        """Load the current map without its points, or None. Costs one round trip."""
        data = (await self._database.get(self._head)).to_dict() or {}
        return _MAP.load(data) if "number" in data else None

    async def load_sample(self, limit: int) -> tuple[KnowledgeMap, MapSample] | None:
        """Load the current map with at most this many points, or None if there is no map.

        Costs two round trips, and one document beside a page for each thousand points.
        """
        current, pages = await self._load_pages(limit)
        attempts = 1
        while current and len(pages) < _count_pages(current, limit) and attempts < _MAX_READS:
            current, pages = await self._load_pages(limit)
            attempts += 1
        return (current, _sample(pages, limit, current.pages)) if current else None

    async def _load_pages(
        self, limit: int
    ) -> tuple[KnowledgeMap | None, list[Mapping[str, bytes]]]:
        """Load the current map, and as many of its pages as this many points need."""
        current = await self.load()
        if current is None:
            return None, []
        count = _count_pages(current, limit)
        references = [self._get_page(current, page) for page in range(count)]
        pages = await self._database.get_all(references, ["points"])
        return current, [(page.to_dict() or {}).get("points", {}) for page in pages]

    async def begin(self, passages: int) -> MapDraft:
        """Announce a new map, before its chunks are read.

        Pages of a map that was not completed are deleted.

        Args:
            passages: About how many points it will have.
        """
        data = (await self._database.get(self._head)).to_dict() or {}
        number = data.get("number", 0)
        await self._delete_other_pages(number)
        draft = MapDraft(number + 1, max(1, ceil(passages / POINTS_PER_PAGE)))
        announcement = {"next": {"number": draft.number, "pages": draft.pages}}
        head = self._head
        await self._database.commit([lambda batch: batch.set(head, announcement, merge=True)])
        return draft

    async def complete(self, drawn: KnowledgeMap, points: Mapping[str, MapPoint]) -> None:
        """Store an announced map with its points, and let it replace the former one.

        Costs as many writes as it has pages, and reads them once.
        """
        by_page = _group_by_page(points, drawn.pages)
        await self._write_pages(drawn, points, by_page)
        await self._remove_gone(drawn, by_page)
        head, data = self._head, _MAP.write(drawn)
        await self._database.commit([lambda batch: batch.set(head, data)])
        await self._delete_other_pages(drawn.number)

    async def update_clusters(self, labels: Mapping[str, tuple[str, int]]) -> None:
        """Give clusters their current names and sizes, by id. A missing cluster has size 0.

        Costs one read, and a write if anything changed.
        """
        snapshot = await self._database.get(self._head, ["clusters"])
        stored = (snapshot.to_dict() or {}).get("clusters", [])
        clusters = []
        for cluster in stored:
            name, size = labels.get(cluster["cluster_id"], (cluster["name"], 0))
            clusters.append(cluster | {"name": name, "size": size})
        if clusters != stored:
            head = self._head
            await self._database.commit([lambda batch: batch.update(head, {"clusters": clusters})])

    def point_writes(self, current: KnowledgeMap, points: Mapping[str, MapPoint]) -> list[Write]:
        """Build the writes that add points, or move existing ones. They read nothing."""
        if not points:
            return []
        head, added = self._head, {"added": Increment(len(points))}
        return [
            *(
                self._build_merge(
                    self._get_page(current, page),
                    {"points": {name: points[name].pack() for name in names}},
                )
                for page, names in _group_by_page(points, current.pages).items()
            ),
            lambda batch: batch.set(head, added, merge=True),
        ]

    async def removal_writes(self, chunk_ids: Sequence[str]) -> list[Write]:
        """Build the writes that remove the points of deleted chunks, if there are any.

        Costs one round trip.

        The chunks must be marked as deleted when this is called, so that a map that is announced
        later does not have them.
        """
        if not chunk_ids:
            return []
        snapshot = await self._database.get(self._head, ["number", "pages", "next"])
        data = snapshot.to_dict() or {}
        writes: list[Write] = []
        if "number" in data:
            current = MapDraft(data["number"], data["pages"])
            writes += self._build_removals(current, chunk_ids, is_draft=False)
        if "next" in data:
            writes += self._build_removals(MapDraft(**data["next"]), chunk_ids, is_draft=True)
        return writes

    @property
    def _head(self) -> AsyncDocumentReference:
        return self._database.document(*_PATH)

    def _get_page(self, drawn: KnowledgeMap | MapDraft, page: int) -> AsyncDocumentReference:
        return self._database.document(COLLECTION, f"{drawn.number}-{page}")

    async def _write_pages(
        self, drawn: KnowledgeMap, points: Mapping[str, MapPoint], by_page: Mapping[int, list[str]]
    ) -> None:
        """Write all pages, empty ones included: a reader that misses one begins anew."""
        writes = [
            self._build_merge(
                self._get_page(drawn, page),
                {"points": {name: points[name].pack() for name in by_page.get(page, ())}},
            )
            for page in range(drawn.pages)
        ]
        for start in range(0, len(writes), PAGES_PER_COMMIT):
            await self._database.commit(writes[start : start + PAGES_PER_COMMIT])

    def _build_removals(
        self, drawn: MapDraft, chunk_ids: Sequence[str], *, is_draft: bool
    ) -> Iterator[Write]:
        for page, names in _group_by_page(chunk_ids, drawn.pages).items():
            gone = {"gone": ArrayUnion(list(map(_hash, names)))} if is_draft else {}
            change = {"points": dict.fromkeys(names, DELETE_FIELD)} | gone
            yield self._build_merge(self._get_page(drawn, page), change)

    def _build_merge(self, page: AsyncDocumentReference, data: dict[str, Any]) -> Write:
        return lambda batch: batch.set(page, data, merge=True)

    async def _remove_gone(self, drawn: KnowledgeMap, by_page: Mapping[int, list[str]]) -> None:
        """Remove the points of chunks that were deleted before their points were written."""
        references = [self._get_page(drawn, page) for page in range(drawn.pages)]
        pages = await self._database.get_all(references, ["gone"])
        fields = {page.id: page.to_dict() or {} for page in pages}
        writes = []
        for page, reference in enumerate(references):
            if gone := fields.get(reference.id, {}).get("gone"):
                names = [name for name in by_page.get(page, ()) if _hash(name) in gone]
                points = {"points": dict.fromkeys(names, DELETE_FIELD)} if names else {}
                writes.append(self._build_merge(reference, {"gone": DELETE_FIELD} | points))
        await self._database.commit(writes)

    async def _delete_other_pages(self, number: int) -> None:
        """Delete the pages of all maps but one. Costs a read for each page."""
        pages = await self._database.find(pages_query(self._database.client))
        others = [page for page in pages if not page.id.startswith(f"{number}-")]
        await self._database.commit([_build_deletion(page.reference) for page in others])


def pages_query(client: AsyncClient) -> AsyncQuery:
    """Build the query for the ids of all pages of all maps."""
    return client.collection(COLLECTION).order_by("__name__").select([])


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, so that a test can check that each has an index."""
    yield pages_query(client)


def unpack_points(points: Iterable[bytes]) -> tuple[list[int], list[int], list[int]]:
    """Return the coordinates and cluster numbers of packed points."""
    rows = list(_POINT.iter_unpack(b"".join(points)))
    return [x for x, _, _ in rows], [y for _, y, _ in rows], [number - 1 for *_, number in rows]


def _count_pages(current: KnowledgeMap, limit: int) -> int:
    """Return how many pages have about this many points."""
    points = max(current.drawn + current.added, 1)
    return min(current.pages, ceil(limit * current.pages / points))


def _sample(pages: Sequence[Mapping[str, bytes]], limit: int, page_count: int) -> MapSample:
    points = {chunk_id: point for page in pages for chunk_id, point in page.items()}
    total = round(len(points) * page_count / max(len(pages), 1))
    if len(points) > limit:
        # Within a page, points are in the order of their ids: those of one source side by side.
        points = {name: points[name] for name in sorted(points, key=_hash)[:limit]}
    return MapSample(points, total)


def _group_by_page(chunk_ids: Iterable[str], pages: int) -> dict[int, list[str]]:
    """Return the chunk ids of each page that has any."""
    by_page: defaultdict[int, list[str]] = defaultdict(list)
    for chunk_id in chunk_ids:
        by_page[_hash(chunk_id) % pages].append(chunk_id)
    return dict(by_page)


def _hash(chunk_id: str) -> int:
    digest = hashlib.blake2b(chunk_id.encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big")


def _build_deletion(reference: AsyncDocumentReference) -> Write:
    return lambda batch: batch.delete(reference)

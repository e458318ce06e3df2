"""`meta/map` and `map/{version}-{page}`: the map of the knowledge base, without any text.

A page maps chunk ids to points of six bytes. The page of a chunk is determined by a hash of its id.
Each page is therefore a random sample, and a point can be added or removed without a read.

Only the cluster job draws a map, adds points to it and updates its clusters. Its runs do not
overlap, because each commit of a run fails if the run has lost the job's lease. It writes a new map
to new pages, which `meta/map` then announces as `next`. From then on, whoever deletes a chunk
deletes its point from both maps. So the job need only remove the points of chunks that were deleted
before, and then one write makes `meta/map` describe the new pages. Readers see the old map or the
new one. A chunk whose deletion began before the announcement may stay until the index job runs.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from shared.core.blocks import split
from shared.core.errors import Unavailable
from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD, Increment
from shared.firestore.writes import Delete, Set, Update, Write

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "map"
POINTS_PER_PAGE: Final = 1_000
"""The approximate number of points on a page of a new map."""
MAX_POINTS_PER_PAGE: Final = 4_000
"""The mean number of points on a page at which a map is full. With the longest ids, such a page
takes 0.9 MB, and Firestore limits a document to 1 MiB. Callers of `build_point_writes` must check
`KnowledgeMap.remaining_capacity`."""
PAGES_PER_COMMIT: Final = 8
"""The number of new pages in a commit. A new page takes up to about 0.25 MB, and a commit may have
4 MB."""
_POINT: Final = struct.Struct("<HHH")
_HEAD: Final = Reference("meta", "map")
_MAX_ATTEMPTS: Final = 3
"""How often to try to read a map. An attempt fails if a new map replaces it in the meantime."""


@dataclass(frozen=True, slots=True)
class MapPoint:
    """The position of a chunk on the map.

    Attributes:
        x: From 0 to 65,535, like `y`.
        cluster: The index of its cluster in `KnowledgeMap.clusters`, up to 65,534; -1 for none.
    """

    x: int
    y: int
    cluster: int

    def pack(self) -> bytes:
        """Encode the point as six bytes: three unsigned 16-bit integers, little endian."""
        return _POINT.pack(self.x, self.y, self.cluster + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCluster:
    """A cluster on the map, with what is needed to place new points in it.

    On each axis, a point is at `centre + (projection - mean) * scale`.

    Attributes:
        size: The number of its chunks; 0 if the cluster was deleted.
        radius: That of the disc that contains nearly all its points, around `x` and `y`.
        mean_x: The mean projection of its chunks on the horizontal axis.
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
    """A map without its points, as `meta/map` stores it.

    Attributes:
        version: Each new map increments it.
        run_id: The clustering that the map shows.
        axes: The horizontal and then the vertical axis, as little-endian single-precision floats.
        clusters: Its clusters. Points refer to them by index.
        drawn_count: How many points the map had when it was drawn.
        added_count: How many points were written since. Moved points count again, and removed
            points still count, so that no write has to read.
    """

    version: int
    page_count: int
    run_id: str
    model: str
    made_at: datetime
    axes: bytes
    clusters: tuple[MapCluster, ...]
    drawn_count: int
    added_count: int = 0

    @property
    def remaining_capacity(self) -> int:
        """How many points at least can be added before the map is full and must be drawn again."""
        return self.page_count * MAX_POINTS_PER_PAGE - self.drawn_count - self.added_count


@dataclass(frozen=True, slots=True)
class MapSample:
    """Points of a map, chosen at random.

    Attributes:
        points: The packed points, by chunk id.
        total: How many points the whole map has; an estimate if not all pages were read.
    """

    points: dict[str, bytes]
    total: int


_CLUSTER: Final = Codec(MapCluster)
_MAP: Final = Codec(
    KnowledgeMap, readers={"clusters": lambda data: tuple(map(_CLUSTER.load, data))}
)


class Maps:
    """Reads, draws and changes the map."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> KnowledgeMap | None:
        """Load the current map without its points, or None. Costs one round trip."""
        data = (await self._database.get(_HEAD)).fields
        return _MAP.load(data) if "version" in data else None

    async def load_sample(self, limit: int) -> tuple[KnowledgeMap, MapSample] | None:
        """Load the current map with up to `limit` points, or None if there is no map.

        Costs one read, one for about each thousand points, and two round trips; more of both if
        many points have been removed since the map was drawn.

        Raises:
            Unavailable: Each time that the map was read, a new one replaced it.
        """
        for _ in range(_MAX_ATTEMPTS):
            current = await self.load()
            if current is None:
                return None
            pages = await self._load_pages(current, limit)
            if pages is not None:
                return current, _sample_points(pages, limit, current.page_count)
        raise Unavailable("The map is being drawn again. Try again in a minute.", retry_after=60)

    async def _load_pages(
        self, current: KnowledgeMap, limit: int
    ) -> list[Mapping[str, bytes]] | None:
        """Load as many pages as contain `limit` points. Return None if a page was deleted."""
        pages: list[Mapping[str, bytes]] = []
        needed = _estimate_page_count(limit, current.drawn_count + current.added_count, current)
        # Removed points still count, so the first pages may have fewer points than estimated.
        while len(pages) < needed:
            numbers = range(len(pages), needed)
            references = [_get_page_reference(current.version, number) for number in numbers]
            snapshots = await self._database.get_all(references, ["points"])
            if len(snapshots) < len(references):
                return None
            pages += [snapshot.fields.get("points", {}) for snapshot in snapshots]
            point_count = sum(map(len, pages))
            if point_count < limit:
                total = point_count * current.page_count // len(pages)
                needed = max(needed + 1, _estimate_page_count(limit, total, current))
                needed = min(needed, current.page_count)
        return pages

    async def replace(
        self,
        new_map: KnowledgeMap,
        points: Mapping[str, MapPoint],
        load_chunk_ids: Callable[[], Awaitable[AbstractSet[str]]],
    ) -> None:
        """Replace the current map with a new one, less the points of chunks that are gone by now.

        Each page costs a write, and each page of the former map a read and a write.
        """
        await self._write_pages(new_map, points)
        pages = {"version": new_map.version, "page_count": new_map.page_count}
        await self._database.commit([Set(_HEAD, {"next": pages}, merge=True)])
        deleted = points.keys() - await load_chunk_ids()
        removals = _build_page_removals(new_map.version, new_map.page_count, deleted)
        for block in split(removals, PAGES_PER_COMMIT):
            await self._database.commit(block)
        # Without `merge`, this also ends the announcement.
        await self._database.commit([Set(_HEAD, _MAP.write(new_map))])
        await self._delete_other_pages(new_map.version)

    async def _write_pages(self, new_map: KnowledgeMap, points: Mapping[str, MapPoint]) -> None:
        """Write the pages of a new map, and delete those of a drawing that was interrupted."""
        await self._delete_other_pages(new_map.version - 1)
        chunk_ids_by_page = _group_by_page(points, new_map.page_count)
        writes = [
            # Empty pages, too: to readers, a missing page means a deleted map.
            Set(
                _get_page_reference(new_map.version, page),
                {"points": {name: points[name].pack() for name in chunk_ids_by_page.get(page, ())}},
            )
            for page in range(new_map.page_count)
        ]
        for block in split(writes, PAGES_PER_COMMIT):
            await self._database.commit(block)

    async def update_clusters(self, names_and_sizes: Mapping[str, tuple[str, int]]) -> None:
        """Update the names and sizes of the clusters on the map.

        Only the cluster job may call this: its lease guards the read and the write. Costs one read,
        and a write if anything changed.

        Args:
            names_and_sizes: The name and the size of each cluster, by id. Clusters that are missing
                get size 0.
        """
        snapshot = await self._database.get(_HEAD, ["clusters"])
        stored = snapshot.fields.get("clusters", [])
        clusters = []
        for cluster in stored:
            name, size = names_and_sizes.get(cluster["cluster_id"], (cluster["name"], 0))
            clusters.append(cluster | {"name": name, "size": size})
        if clusters != stored:
            await self._database.commit([Update(_HEAD, {"clusters": clusters})])

    def build_point_writes(
        self, current: KnowledgeMap, points: Mapping[str, MapPoint]
    ) -> list[Write]:
        """Build the writes that add points or move existing ones, without reading anything.

        Only the cluster job may commit them.
        """
        if not points:
            return []
        return [
            *(
                Set(
                    _get_page_reference(current.version, page),
                    {"points": {chunk_id: points[chunk_id].pack() for chunk_id in chunk_ids}},
                    merge=True,
                )
                for page, chunk_ids in _group_by_page(points, current.page_count).items()
            ),
            Set(_HEAD, {"added_count": Increment(len(points))}, merge=True),
        ]

    async def build_removal_writes(self, chunk_ids: Sequence[str]) -> list[Write]:
        """Build the writes that remove the points of deleted chunks from all maps.

        Mark the chunks as deleted before calling this, so that a map that is announced later does
        not include them. If the chunks are marked only in the same commit, the index job must
        remove their points again. Costs one read, or nothing without chunks.
        """
        if not chunk_ids:
            return []
        head = (await self._database.get(_HEAD, ["version", "page_count", "next"])).fields
        return [
            write
            for pages in (head, head.get("next", {}))
            if "version" in pages
            for write in _build_page_removals(pages["version"], pages["page_count"], chunk_ids)
        ]

    async def _delete_other_pages(self, version: int) -> None:
        """Delete the pages of all versions except this one. Costs one read per page.

        The removal of a point that is committed just afterwards creates such a page again, without
        points. The next drawing deletes it.
        """
        pages = await self._database.find(Query(COLLECTION).order_by("__name__").select([]))
        others = [page for page in pages if not page.id.startswith(f"{version}-")]
        await self._database.commit([Delete(page.reference) for page in others])


def unpack_points(points: Iterable[bytes]) -> tuple[list[int], list[int], list[int]]:
    """Decode points that `MapPoint.pack` encoded, to their x, their y and their clusters."""
    rows = list(_POINT.iter_unpack(b"".join(points)))
    return (
        [x for x, _, _ in rows],
        [y for _, y, _ in rows],
        [stored_cluster - 1 for *_, stored_cluster in rows],
    )


def _get_page_reference(version: int, number: int) -> Reference:
    return Reference(COLLECTION, f"{version}-{number}")


def _build_page_removals(version: int, page_count: int, chunk_ids: Iterable[str]) -> list[Write]:
    return [
        Set(
            _get_page_reference(version, page),
            {"points": dict.fromkeys(ids_on_page, DELETE_FIELD)},
            merge=True,
        )
        for page, ids_on_page in _group_by_page(chunk_ids, page_count).items()
    ]


def _estimate_page_count(limit: int, total: int, current: KnowledgeMap) -> int:
    """Estimate how many pages contain `limit` points, if all pages together contain `total`."""
    return min(current.page_count, ceil(limit * current.page_count / max(total, 1)))


def _sample_points(pages: Sequence[Mapping[str, bytes]], limit: int, page_count: int) -> MapSample:
    """Choose `limit` points of these pages at random, and estimate the total over all pages."""
    points = {chunk_id: point for page in pages for chunk_id, point in page.items()}
    total = round(len(points) * page_count / max(len(pages), 1))
    if len(points) > limit:
        # On a page, points are sorted by chunk id, so the first ones would be of only a few
        # sources.
        points = {chunk_id: points[chunk_id] for chunk_id in sorted(points, key=_hash)[:limit]}
    return MapSample(points, total)


def _group_by_page(chunk_ids: Iterable[str], page_count: int) -> dict[int, list[str]]:
    """Group chunk ids by page number. Pages without chunk ids are left out."""
    chunk_ids_by_page: defaultdict[int, list[str]] = defaultdict(list)
    for chunk_id in chunk_ids:
        chunk_ids_by_page[_hash(chunk_id) % page_count].append(chunk_id)
    return dict(chunk_ids_by_page)


def _hash(chunk_id: str) -> int:
    digest = hashlib.blake2b(chunk_id.encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")

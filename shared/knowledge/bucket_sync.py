"""`buckets/{key}`: what has been read of a Cloud Storage prefix, so that only changes are read.

The objects are spread over 64 shards by their names. `buckets/{key}` {address, shards} holds a
digest of each shard's objects and their generations: one read tells which shards have changed. What
each object holds (`Held`) stands in `buckets/{key}/objects/{shard}.{version}.{part}`, compressed,
and cut below the megabyte that a document may have. The write of `buckets/{key}`, which comes last,
makes the new version of a shard visible.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.knowledge.chunk_repository import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from google.cloud.firestore import AsyncDocumentReference

    from shared.firestore.database import Database, Write

SHARDS: Final = 64
PART_BYTES: Final = 900_000
"""A document holds a megabyte."""
MAX_BYTES: Final = 2_000_000
"""What one commit may hold: the emulator refuses requests above 4 MiB, the cloud above 10."""
_COLLECTION: Final = "buckets"
_OBJECTS: Final = "objects"


@dataclass(frozen=True, slots=True)
class Held:
    """What the base holds of an object.

    Attributes:
        generation: The one that was read; 0: none was read whole.
        ids: The sources that came of it, or may have.
    """

    generation: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shard:
    """Where a shard stands, and the digest of what it holds."""

    digest: str
    version: int
    parts: int


class BucketSync:
    """Keeps what has been read of one prefix."""

    def __init__(self, database: Database, address: str) -> None:
        """Keep it in this database; the prefix is known by its address."""
        key = hashlib.sha256(address.encode()).hexdigest()[:20]
        self._database = database
        self._address = address
        self._reference = database.document(_COLLECTION, key)
        self._objects = f"{_COLLECTION}/{key}/{_OBJECTS}"
        self._shards: dict[int, _Shard] = {}

    async def digests(self) -> dict[int, str]:
        """The digests of the shards that hold something. One read."""
        snapshot = await self._database.get(self._reference)
        found = (snapshot.to_dict() or {}).get("shards", {})
        self._shards = {int(number): _Shard(**shard) for number, shard in found.items()}
        return {number: shard.digest for number, shard in self._shards.items()}

    async def objects(self, shards: Iterable[int]) -> dict[str, Held]:
        """What is held of the objects of these shards, by their names. One read a shard."""
        wanted = [number for number in shards if number in self._shards]
        parts = {number: self._parts(number) for number in wanted}
        found = await self._database.get_all([part for own in parts.values() for part in own])
        data = {snapshot.id: snapshot.get("data") for snapshot in found}
        return {
            name: held
            for own in parts.values()
            for name, held in _unpacked(b"".join(data[part.id] for part in own)).items()
        }

    async def keep(self, shards: Mapping[int, Mapping[str, Held]]) -> None:
        """Remember what these shards hold from now on: all of it, or nothing."""
        old = [part for number in shards for part in self._parts(number)]
        pieces = [
            piece for number, held in shards.items() for piece in self._replaced(number, held)
        ]
        *first, last = _commits(pieces)
        for writes in first:
            await self._database.commit(writes)
        await self._database.commit([*last, self._index(), *map(_deletion, old)])

    def _replaced(
        self, number: int, objects: Mapping[str, Held]
    ) -> Iterator[tuple[AsyncDocumentReference, bytes]]:
        """The parts of the next version of a shard."""
        before = self._shards.pop(number, _Shard("", 0, 0))
        if not objects:
            return
        data = _packed(objects)
        starts = range(0, len(data), PART_BYTES)
        generations = {name: held.generation for name, held in objects.items()}
        self._shards[number] = _Shard(digest(generations), before.version + 1, len(starts))
        for part, start in zip(self._parts(number), starts, strict=True):
            yield part, data[start : start + PART_BYTES]

    def _index(self) -> Write:
        shards = {str(number): asdict(shard) for number, shard in self._shards.items()}
        return _writing(self._reference, {"address": self._address, "shards": shards})

    def _parts(self, number: int) -> list[AsyncDocumentReference]:
        shard = self._shards.get(number, _Shard("", 0, 0))
        names = (f"{number}.{shard.version}.{part}" for part in range(shard.parts))
        return [self._database.document(self._objects, name) for name in names]


def shard_of(name: str) -> int:
    """The shard of an object."""
    return hashlib.sha256(name.encode()).digest()[0] % SHARDS


def digest(generations: Mapping[str, int]) -> str:
    """Changes exactly when an object or a generation does, or the layout of chunks."""
    items: Sequence[Any] = [LAYOUT, *sorted(generations.items())]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:20]


def _packed(objects: Mapping[str, Held]) -> bytes:
    held = {name: (each.generation, each.ids, False) for name, each in objects.items()}
    return zlib.compress(json.dumps([LAYOUT, held]).encode())


def _unpacked(data: bytes) -> dict[str, Held]:
    """What `_packed` made of objects.

    Where chunks are laid out differently since, no generation has been read; nor has that of an
    object some of whose records were left out for another's, as they were once: the third value.
    """
    layout, held = json.loads(zlib.decompress(data))
    return {
        name: Held(generation if layout == LAYOUT and not left_out else 0, tuple(ids))
        for name, (generation, ids, left_out) in held.items()
    }


def _commits(pieces: Iterable[tuple[AsyncDocumentReference, bytes]]) -> Iterator[list[Write]]:
    """Cut writes into commits that Firestore takes; there is always one."""
    commit: list[Write] = []
    size = 0
    for reference, data in pieces:
        if commit and size + len(data) > MAX_BYTES:
            yield commit
            commit, size = [], 0
        commit.append(_writing(reference, {"data": data}))
        size += len(data)
    yield commit


def _writing(reference: AsyncDocumentReference, data: dict[str, Any]) -> Write:
    return lambda batch: batch.set(reference, data)


def _deletion(reference: AsyncDocumentReference) -> Write:
    return lambda batch: batch.delete(reference)

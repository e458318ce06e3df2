"""Stores what was read of a followed bucket (`buckets/{key}`) or folder (`folders/{key}`).

A hash of its name assigns each object of a bucket to one of 64 shards. The files of a folder are
all in shard 0. The main document, {address, shards}, has a digest of each shard, made of the names
and generations of its files, so that one read shows which shards changed. For a folder, it also has
`read_at`.

The states of a shard's files (`FileState`) are compressed, and split into the documents
`.../objects/{shard}.{version}.{part}`, each below Firestore's limit of a megabyte. The main
document is written last, which makes the new version of a shard visible.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import pack
from shared.firestore.documents import Reference
from shared.firestore.writes import Delete, Set, Write
from shared.knowledge.chunk_repository import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.knowledge.roots import Root

SHARDS: Final = 64
"""The number of shards of a bucket."""
_FOLDER_SHARD: Final = 0
"""The number of a folder's only shard."""
PART_BYTES: Final = 900_000
"""The maximum size of a part of a shard, in bytes. Firestore's limit for a document is 1 MiB."""
MAX_BYTES: Final = 2_000_000
"""The maximum size of the parts in a commit, in bytes. The emulator rejects requests above 4 MiB,
the cloud above 10 MiB."""
_BUCKETS: Final = "buckets"
_FOLDERS: Final = "folders"
_OBJECTS: Final = "objects"


@dataclass(frozen=True, slots=True)
class FileState:
    """What was read of an object in a bucket, or of a file on disk.

    Attributes:
        generation: For an object, the generation that was read, or 0 if none was read completely.
            For a file, a hash of its content, or 0 if the content is not known.
        ids: The ids of its sources, including those that may not have been written yet.
        missing: Whether a file on disk was missing, so that its sources were forgotten. They are
            restored when the file returns.
    """

    generation: int
    ids: tuple[str, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class _Shard:
    """What the main document says of a shard: its digest, its version and its number of parts."""

    digest: str
    version: int
    parts: int


class FollowedFiles:
    """Stores the states of the files of one bucket or folder.

    Attributes:
        read_at: When a run last read the folder completely. None for a bucket.
    """

    def __init__(self, database: Database, address: str) -> None:
        self._database = database
        self._address = address
        self._shards: dict[int, _Shard] = {}
        self._files: dict[str, FileState] = {}
        self.read_at: datetime | None = None
        self._locate(_BUCKETS, address)

    @classmethod
    def of_folder(cls, database: Database, root: Root) -> FollowedFiles:
        """Return the stored states of a folder on disk, which stay when the folder moves."""
        followed = cls(database, root.path.as_uri())
        followed._locate(_FOLDERS, root.collection)
        return followed

    def _locate(self, collection: str, name: str) -> None:
        key = hashlib.sha256(os.fsencode(name)).hexdigest()[:20]
        self._reference = Reference(collection, key)
        self._objects = f"{collection}/{key}/{_OBJECTS}"

    async def load_digests(self) -> dict[int, str]:
        """Load the digests of all shards that are not empty. Costs one read."""
        snapshot = await self._database.get(self._reference)
        self.read_at = snapshot.fields.get("read_at")
        shards = snapshot.fields.get("shards", {})
        self._shards = {int(number): _Shard(**shard) for number, shard in shards.items()}
        return {number: shard.digest for number, shard in self._shards.items()}

    async def load_files(self) -> dict[str, FileState]:
        """Load the states of all files, by name. Costs one read, and one for each part."""
        self._files = await self.load_objects(await self.load_digests())
        return dict(self._files)

    async def load_objects(self, shards: Iterable[int]) -> dict[str, FileState]:
        """Load the states of the objects in these shards, by name. Costs one read for each part.

        Call `load_digests` before.
        """
        parts = {number: self._get_parts(number) for number in shards if number in self._shards}
        references = [part for shard_parts in parts.values() for part in shard_parts]
        snapshots = await self._database.get_all(references)
        data = {snapshot.id: snapshot.get("data") for snapshot in snapshots}
        return {
            name: state
            for shard_parts in parts.values()
            for name, state in _unpack(b"".join(data[part.id] for part in shard_parts)).items()
        }

    async def store_folder(
        self, files: Mapping[str, FileState], read_at: datetime | None = None
    ) -> None:
        """Replace the states of all files of a folder, unless they are as `load_files` loaded them.

        Args:
            read_at: When the folder was read completely. By default, the stored time stays.
        """
        changed = {_FOLDER_SHARD: files} if files != self._files else {}
        if changed or read_at:
            self.read_at = read_at or self.read_at
            await self.store(changed)
            self._files = dict(files)

    async def store(self, shards: Mapping[int, Mapping[str, FileState]]) -> None:
        """Replace the contents of these shards. Readers see either all new contents or none."""
        old_parts = [part for number in shards for part in self._get_parts(number)]
        new_parts = [
            part for number, states in shards.items() for part in self._build_parts(number, states)
        ]
        writes = [Set(part, {"data": data}) for part, data in new_parts]
        blocks = pack(writes, len(writes), MAX_BYTES, lambda write: len(write.fields["data"]))
        *first, last = list(blocks) or [[]]
        for block in first:
            await self._database.commit(block)
        await self._database.commit([*last, self._build_index_write(), *map(Delete, old_parts)])

    def _build_parts(
        self, number: int, states: Mapping[str, FileState]
    ) -> Iterator[tuple[Reference, bytes]]:
        """Yield the parts of the next version of a shard, each with its reference."""
        previous = self._shards.pop(number, _Shard("", 0, 0))
        if not states:
            return
        data = _pack(states)
        starts = range(0, len(data), PART_BYTES)
        generations = {name: state.generation for name, state in states.items()}
        self._shards[number] = _Shard(
            compute_digest(generations), previous.version + 1, len(starts)
        )
        for part, start in zip(self._get_parts(number), starts, strict=True):
            yield part, data[start : start + PART_BYTES]

    def _build_index_write(self) -> Write:
        shards = {str(number): asdict(shard) for number, shard in self._shards.items()}
        data = {"address": self._address, "shards": shards}
        return Set(self._reference, data | ({"read_at": self.read_at} if self.read_at else {}))

    def _get_parts(self, number: int) -> list[Reference]:
        shard = self._shards.get(number, _Shard("", 0, 0))
        names = (f"{number}.{shard.version}.{part}" for part in range(shard.parts))
        return [Reference(self._objects, name) for name in names]


def assign_shard(name: str) -> int:
    """Return the number of the shard to which an object of this name belongs."""
    return hashlib.sha256(name.encode()).digest()[0] % SHARDS


def compute_digest(generations: Mapping[str, int]) -> str:
    """Compute the digest of a shard from its objects' generations, and the layout of chunks."""
    items: Sequence[Any] = [LAYOUT, *sorted(generations.items())]
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:20]


def _pack(states: Mapping[str, FileState]) -> bytes:
    rows = {
        name: (state.generation, state.ids, *([True] if state.missing else []))
        for name, state in states.items()
    }
    return zlib.compress(json.dumps([LAYOUT, rows]).encode())


def _unpack(data: bytes) -> dict[str, FileState]:
    """Read the states that `_pack` wrote.

    An object counts as unread (generation 0) if the layout of chunks has changed since.
    """
    layout, rows = json.loads(zlib.decompress(data))
    return {
        name: FileState(generation if layout == LAYOUT else 0, tuple(ids), bool(missing))
        for name, (generation, ids, *missing) in rows.items()
    }

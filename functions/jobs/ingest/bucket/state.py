"""What the base holds of a prefix's objects, as far as a run has to know it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.reading import OF_MANY
from shared.knowledge.bucket_sync import SHARDS, ObjectState, digest, shard_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from functions.jobs.ingest.bucket.storage import ListedObject
    from shared.knowledge.bucket_sync import BucketSync

_NOTHING: Final = ObjectState(0)


class BucketState:
    """The shards that a run has read, and what it changes in them.

    Several files of many records may hold the same source: it is what the one that was read last
    says, and goes when none holds it any more. The ids of other files' sources come from the files'
    names, which differ.
    """

    def __init__(self, sync: BucketSync, listing: Mapping[str, ListedObject]) -> None:
        """Hold nothing yet.

        Args:
            sync: Where it is kept.
            listing: The objects that can be read, by name, as they are now.
        """
        self._sync = sync
        self._listing = listing
        self._shards: dict[int, dict[str, ObjectState]] = {}
        self._touched: set[int] = set()

    async def load(self) -> bool:
        """Read the shards in which something has changed: one read, where nothing has.

        Returns:
            Whether anything was held at all.
        """
        kept = await self._sync.digests()
        listed: dict[int, dict[str, int]] = defaultdict(dict)
        for name, each in self._listing.items():
            listed[shard_of(name)][name] = each.generation
        known = kept.keys() | listed.keys()
        await self._load(n for n in known if kept.get(n) != digest(listed.get(n, {})))
        if any(map(of_many, [*self.new(), *self.gone()])):
            await self._load(set(range(SHARDS)) - self._shards.keys())
        return bool(kept)

    def new(self) -> list[str]:
        """The objects that are to be read: shard by shard, so that few are written at once."""
        changed = (name for name in self._listing if shard_of(name) in self._shards)
        names = (name for name in changed if not self.is_current(name))
        return sorted(names, key=lambda name: (shard_of(name), name))

    def gone(self) -> list[str]:
        """The objects that are held and not there any more, likewise."""
        names = (name for shard in self._shards.values() for name in shard)
        gone = (name for name in names if name not in self._listing)
        return sorted(gone, key=lambda name: (shard_of(name), name))

    def of(self, name: str) -> ObjectState:
        """What is held of an object."""
        return self._shards[shard_of(name)].get(name, _NOTHING)

    def claim(self, name: str, ids: Iterable[str]) -> None:
        """Say which sources an object holds before they are written: so that none is ever lost."""
        before = self.of(name)
        if more := sorted(set(ids).difference(before.ids)):
            self.put(name, ObjectState(0, (*before.ids, *more)))

    def put(self, name: str, held: ObjectState) -> None:
        """Say what an object holds."""
        self._shards[shard_of(name)][name] = held
        self._touched.add(shard_of(name))

    def forget(self, name: str) -> None:
        """Say that an object holds nothing any more."""
        self._shards[shard_of(name)].pop(name, None)
        self._touched.add(shard_of(name))

    def holders(self, ids: Collection[str]) -> dict[str, set[str]]:
        """The objects of many records that hold some of these sources, and which of them."""
        wanted = set(ids)
        objects = (item for shard in self._shards.values() for item in shard.items())
        shared = {name: wanted.intersection(held.ids) for name, held in objects if of_many(name)}
        return {name: common for name, common in shared.items() if common}

    def is_current(self, name: str) -> bool:
        """Whether an object was read as it is now."""
        return name in self._listing and self.of(name).generation == self._listing[name].generation

    async def store(self) -> None:
        """Write what has changed since the last time, all at once."""
        if self._touched:
            await self._sync.store({shard: self._shards[shard] for shard in self._touched})
            self._touched.clear()

    async def _load(self, shards: Iterable[int]) -> None:
        missing = list(shards)
        self._shards |= {shard: {} for shard in missing}
        for name, held in (await self._sync.objects(missing)).items():
            self._shards[shard_of(name)][name] = held


def of_many(name: str) -> bool:
    """Whether an object of this name holds several sources, whose ids do not come from it."""
    return PurePosixPath(name).suffix.lower() in OF_MANY

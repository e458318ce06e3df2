"""What the base holds of a prefix's objects, as far as a run has to know it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.reading import OF_MANY
from shared.knowledge.bucket_sync import SHARDS, Held, digest, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from functions.jobs.ingest.bucket.objects import Listed
    from shared.knowledge.bucket_sync import BucketSync

_NOTHING: Final = Held(0)


class Holdings:
    """The shards that a run has read, and what it changes in them.

    A source that two objects hold is left to the one that was read first. That is only asked about
    files of many records: the ids of others come from their names, which differ.
    """

    def __init__(self, sync: BucketSync, listing: Mapping[str, Listed]) -> None:
        """Hold nothing yet.

        Args:
            sync: Where it is kept.
            listing: The objects that can be read, by name, as they are now.
        """
        self._sync = sync
        self._listing = listing
        self._shards: dict[int, dict[str, Held]] = {}
        self._owners: dict[str, str] = {}
        self._claimed: set[str] = set()
        self._free: set[str] = set()
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
        if any(map(_of_many, [*self.new(), *self.gone()])):
            await self._load(set(range(SHARDS)) - self._shards.keys())
        return bool(kept)

    def new(self) -> list[str]:
        """The objects that are to be read: shard by shard, so that few are written at once."""
        changed = (name for name in self._listing if shard_of(name) in self._shards)
        names = (name for name in changed if not self._is_current(name))
        return sorted(names, key=lambda name: (shard_of(name), name))

    def gone(self) -> list[str]:
        """The objects that are held and not there any more, likewise."""
        names = (name for shard in self._shards.values() for name in shard)
        gone = (name for name in names if name not in self._listing)
        return sorted(gone, key=lambda name: (shard_of(name), name))

    def of(self, name: str) -> Held:
        """What is held of an object."""
        return self._shards[shard_of(name)].get(name, _NOTHING)

    def owner_of(self, source_id: str, name: str) -> str | None:
        """Which object but the one of this name holds a source, and still does."""
        owner = self._owners.get(source_id, name)
        holds = owner in self._claimed or self._is_current(owner)
        return owner if owner != name and holds and source_id not in self._free else None

    def claim(self, name: str, ids: Iterable[str], *, whole: bool) -> None:
        """Say which sources an object holds before they are written: so that none is ever lost.

        Those of an object that is gone, holds them no more or will be read again, are taken from
        it.

        Args:
            name: The object.
            ids: Its sources.
            whole: Whether these are all of them; otherwise it holds those of before, too.
        """
        before, now = set(self.of(name).ids), dict.fromkeys(ids).keys()
        if more := now - before:
            held = self.of(name)
            self._put(name, replace(held, generation=0, ids=(*held.ids, *sorted(more))))
        self._claimed.add(name)
        if _of_many(name):
            self._free |= before - now if whole else set()
            self._take(name, more)

    def _take(self, name: str, ids: Iterable[str]) -> None:
        taken: dict[str, set[str]] = defaultdict(set)
        for source_id in ids:
            if owner := self._owners.get(source_id):
                taken[owner].add(source_id)
            self._owners[source_id] = name
            self._free.discard(source_id)
        for owner, lost in taken.items():
            held = self.of(owner)
            self._put(
                owner, replace(held, ids=tuple(each for each in held.ids if each not in lost))
            )

    def settle(self, name: str, held: Held) -> None:
        """Say what an object holds, after it was written."""
        self._put(name, held)

    def release(self, ids: Iterable[str]) -> None:
        """These sources are nobody's any more: files whose records were refused are read again.

        That is, by the next run.
        """
        if self._owners.keys().isdisjoint(ids):
            return
        for shard in self._shards.values():
            for name, held in list(shard.items()):
                if held.refused:
                    self._put(name, replace(held, generation=0))

    def forget(self, name: str) -> None:
        """Say that an object holds nothing any more."""
        self._shards[shard_of(name)].pop(name, None)
        self._touched.add(shard_of(name))

    async def keep(self) -> None:
        """Write what has changed since the last time, all at once."""
        if self._touched:
            await self._sync.keep({shard: self._shards[shard] for shard in self._touched})
            self._touched.clear()

    def _is_current(self, name: str) -> bool:
        """Whether an object was read as it is now."""
        return name in self._listing and self.of(name).generation == self._listing[name].generation

    def _put(self, name: str, held: Held) -> None:
        self._shards[shard_of(name)][name] = held
        self._touched.add(shard_of(name))

    async def _load(self, shards: Iterable[int]) -> None:
        wanted = list(shards)
        self._shards |= {shard: {} for shard in wanted}
        for name, held in (await self._sync.objects(wanted)).items():
            self._shards[shard_of(name)][name] = held
            if _of_many(name):
                self._owners |= dict.fromkeys(held.ids, name)


def _of_many(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in OF_MANY

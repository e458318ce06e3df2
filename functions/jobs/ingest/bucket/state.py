"""The states of the objects below a prefix that a run needs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.missing_sources import MissingCounts
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import find_identity
from shared.knowledge.followed_files import SHARDS, FileState, assign_shard, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from functions.jobs.ingest.bucket.storage import ListedObject
    from shared.knowledge.followed_files import FollowedFiles

_UNREAD: Final = FileState(0)


class BucketState:
    """The shards that a run has loaded, and its changes.

    Several multi-record files may contain the same source. Its text is then that of the file that
    was read last, and it is deleted when no file contains it any more. In all other files, the ids
    of sources come from the names of the files and are unique.
    """

    def __init__(self, sync: FollowedFiles, listing: Mapping[str, ListedObject]) -> None:
        """Store the arguments. Nothing is loaded yet.

        Args:
            sync: The stored state.
            listing: The current readable objects, by name.
        """
        self._sync = sync
        self._listing = listing
        self._shards: dict[int, dict[str, FileState]] = {}
        self._changed: set[int] = set()
        self._known = 0, 0

    async def load(self) -> None:
        """Load the shards that have changed. Costs one read if none has."""
        stored = await self._sync.digests()
        generations: dict[int, dict[str, int]] = defaultdict(dict)
        for name, listed in self._listing.items():
            generations[assign_shard(name)][name] = listed.generation
        shards = stored.keys() | generations.keys()
        await self._load(n for n in shards if stored.get(n) != digest(generations.get(n, {})))
        if any(map(is_multi_record, [*self.new(), *self.deleted()])):
            await self._load(set(range(SHARDS)) - self._shards.keys())
        self._known = self._count()

    def _count(self) -> tuple[int, int]:
        """Return how many objects were read before, and how many sources they have.

        An object in a shard that is not loaded has one source: with any that has several, all
        shards are loaded.
        """
        states = [state for shard in self._shards.values() for state in shard.values()]
        others = sum(assign_shard(name) not in self._shards for name in self._listing)
        ids = {source_id for state in states for source_id in state.ids}
        return len(states) + others, len(ids) + others

    def missing_counts(
        self, settled: Mapping[str, FileState], is_ignored: Callable[[str], bool]
    ) -> MissingCounts:
        """Count the objects and sources that are missing since they were read.

        Args:
            settled: The states of objects whose stored states still have former sources.
            is_ignored: Returns whether a source of this id is not missing in any case.
        """
        deleted = self.deleted()
        states = {name: state for shard in self._shards.values() for name, state in shard.items()}
        present = {
            source_id
            for name, state in states.items()
            if name in self._listing
            for source_id in settled.get(name, state).ids
        }
        former = {source_id for name in (*deleted, *settled) for source_id in states[name].ids}
        missing = {name for name in former - present if not is_ignored(name)}
        files = sum(not missing.isdisjoint(states[name].ids) for name in deleted)
        return MissingCounts(files, self._known[0], len(missing), self._known[1])

    def new(self) -> list[str]:
        """Return the objects to read, ordered by shard, so that few shards are written at once."""
        changed = (name for name in self._listing if assign_shard(name) in self._shards)
        names = (name for name in changed if not self.is_current(name))
        return sorted(names, key=lambda name: (assign_shard(name), name))

    def deleted(self) -> list[str]:
        """Return the objects that were read and are no longer in the bucket, ordered by shard."""
        names = (name for shard in self._shards.values() for name in shard)
        deleted = (name for name in names if name not in self._listing)
        return sorted(deleted, key=lambda name: (assign_shard(name), name))

    def get(self, name: str) -> FileState:
        """Return the state of an object."""
        return self._shards[assign_shard(name)].get(name, _UNREAD)

    def claim(self, name: str, ids: Iterable[str]) -> None:
        """Record the sources of an object before they are written, so that none is ever lost."""
        previous = self.get(name)
        if added := sorted(set(ids).difference(previous.ids)):
            self.put(name, FileState(0, (*previous.ids, *added)))

    def put(self, name: str, state: FileState) -> None:
        """Set the state of an object."""
        self._shards[assign_shard(name)][name] = state
        self._changed.add(assign_shard(name))

    def forget(self, name: str) -> None:
        """Remove an object."""
        self._shards[assign_shard(name)].pop(name, None)
        self._changed.add(assign_shard(name))

    def holders(self, ids: Collection[str]) -> dict[str, set[str]]:
        """Return the multi-record objects with some of these sources, and which they have."""
        source_ids = set(ids)
        objects = (item for shard in self._shards.values() for item in shard.items())
        shared = {
            name: source_ids.intersection(state.ids)
            for name, state in objects
            if is_multi_record(name)
        }
        return {name: common for name, common in shared.items() if common}

    def is_current(self, name: str) -> bool:
        """Return whether the current generation of an object was read completely."""
        return name in self._listing and self.get(name).generation == self._listing[name].generation

    async def store(self) -> None:
        """Write all changes since the last call. Readers see all of them or none."""
        if self._changed:
            await self._sync.store({shard: self._shards[shard] for shard in self._changed})
            self._changed.clear()

    async def _load(self, shards: Iterable[int]) -> None:
        missing = list(shards)
        self._shards |= {shard: {} for shard in missing}
        for name, state in (await self._sync.objects(missing)).items():
            self._shards[assign_shard(name)][name] = state


def is_multi_record(name: str) -> bool:
    """Return whether an object has several sources, whose ids do not come from its name."""
    return find_identity(PurePosixPath(name)) is not Identity.FILE

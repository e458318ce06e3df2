"""Tracks which objects below a prefix were read, and which sources they contain."""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.missing_sources import MissingCounts
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import find_identity
from shared.knowledge.followed_files import SHARDS, FileState, assign_shard, compute_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from functions.jobs.ingest.bucket.storage import ListedObject
    from shared.knowledge.followed_files import FollowedFiles

_UNREAD: Final = FileState(0)


class BucketState:
    """The object states that a run has loaded from their shards, and its changes to them.

    Several multi-record files may contain the same source. The source then has the text of the file
    that was read last, and is deleted once no file contains it. In all other files, source
    ids are derived from file names and are unique.
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
        self._former_counts = 0, 0

    async def load(self) -> None:
        """Load the shards that have changed. Costs one read if no shard has changed."""
        stored = await self._sync.load_digests()
        generations: dict[int, dict[str, int]] = defaultdict(dict)
        for name, listed in self._listing.items():
            generations[assign_shard(name)][name] = listed.generation
        shards = stored.keys() | generations.keys()
        await self._load(
            shard
            for shard in shards
            if stored.get(shard) != compute_digest(generations.get(shard, {}))
        )
        if any(map(is_multi_record, [*self.list_unread(), *self.list_deleted()])):
            await self._load(set(range(SHARDS)) - self._shards.keys())
        self._former_counts = self._count_former()

    def _count_former(self) -> tuple[int, int]:
        """Return how many objects were read before, and how many sources they contain.

        Each object in a shard that is not loaded counts as one source.
        """
        states = [state for shard in self._shards.values() for state in shard.values()]
        others = sum(assign_shard(name) not in self._shards for name in self._listing)
        ids = {source_id for state in states for source_id in state.ids}
        return len(states) + others, len(ids) + others

    def count_missing(
        self, settled: Mapping[str, FileState], is_ignored: Callable[[str], bool]
    ) -> MissingCounts:
        """Count the objects and sources that disappeared since they were read.

        Args:
            settled: The new states of objects whose stored states still contain former sources.
            is_ignored: Returns whether a source with this id never counts as missing.
        """
        deleted = self.list_deleted()
        states = {name: state for shard in self._shards.values() for name, state in shard.items()}
        present = {
            source_id
            for name, state in states.items()
            if name in self._listing
            for source_id in settled.get(name, state).ids
        }
        former = {source_id for name in (*deleted, *settled) for source_id in states[name].ids}
        missing = {source_id for source_id in former - present if not is_ignored(source_id)}
        files = sum(not missing.isdisjoint(states[name].ids) for name in deleted)
        file_count, text_count = self._former_counts
        return MissingCounts(files, file_count, len(missing), text_count)

    def list_unread(self) -> list[str]:
        """List the objects to read, ordered by shard, so that few shards are written at once."""
        changed = (name for name in self._listing if assign_shard(name) in self._shards)
        names = (name for name in changed if not self.is_current(name))
        return sorted(names, key=lambda name: (assign_shard(name), name))

    def list_deleted(self) -> list[str]:
        """List the objects that were read and are no longer in the bucket, ordered by shard."""
        names = (name for shard in self._shards.values() for name in shard)
        deleted = (name for name in names if name not in self._listing)
        return sorted(deleted, key=lambda name: (assign_shard(name), name))

    def get(self, name: str) -> FileState:
        """Return the state of an object; an object that was never read has generation 0."""
        return self._shards[assign_shard(name)].get(name, _UNREAD)

    def claim(self, name: str, ids: Iterable[str]) -> None:
        """Record the sources of an object before they are written, so that no source is lost."""
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

    def find_holders(self, ids: Collection[str]) -> dict[str, set[str]]:
        """Find the multi-record objects that contain any of these sources.

        Returns:
            The ids of the sources in each object, by the object's name.
        """
        source_ids = set(ids)
        objects = (named_state for shard in self._shards.values() for named_state in shard.items())
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
        """Write all changes since the last call, in one commit."""
        if self._changed:
            await self._sync.store({shard: self._shards[shard] for shard in self._changed})
            self._changed.clear()

    async def _load(self, shards: Iterable[int]) -> None:
        missing = list(shards)
        self._shards |= {shard: {} for shard in missing}
        for name, state in (await self._sync.load_objects(missing)).items():
            self._shards[assign_shard(name)][name] = state


def is_multi_record(name: str) -> bool:
    """Return whether an object may contain several sources, whose ids do not contain its name."""
    return find_identity(PurePosixPath(name)) is not Identity.FILE

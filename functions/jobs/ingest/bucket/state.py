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

UNREAD: Final = 0
"""The generation of an object that no run has read completely, so that the next run reads it."""


class BucketState:
    """Which objects were read, and which sources they contain, with the changes of this run.

    The states of objects are stored in shards, to which hashes of their names assign them. A run
    loads only shards in which an object has changed. Methods that take the name of an object raise
    `KeyError` if its shard is not loaded.

    A multi-record object, such as a JSON Lines file, contains any number of sources. Several of
    them may contain the same source, which then has the text of the object that was read last, and
    is deleted once no object contains it. Any other object is one source, with its name in the id.
    """

    def __init__(self, followed: FollowedFiles, listing: Mapping[str, ListedObject]) -> None:
        self._followed = followed
        self._listing = listing
        self._shards: dict[int, dict[str, FileState]] = {}
        self._dirty_shards: set[int] = set()
        self._former_object_count = 0
        self._former_source_count = 0

    async def load(self) -> None:
        """Load the shards that have changed. Costs one read if no shard has changed."""
        stored = await self._followed.load_digests()
        generations: dict[int, dict[str, int]] = defaultdict(dict)
        for name, listed in self._listing.items():
            generations[assign_shard(name)][name] = listed.generation
        shards = stored.keys() | generations.keys()
        await self._load(
            shard
            for shard in shards
            if stored.get(shard) != compute_digest(generations.get(shard, {}))
        )
        # The sources of a multi-record object may be in objects of any other shard, too.
        if any(map(is_multi_record, [*self.list_unread(), *self.list_deleted()])):
            await self._load(set(range(SHARDS)) - self._shards.keys())
        states = self._collect_states()
        # Each object in a shard that is not loaded has been read, and counts as one source.
        others = sum(assign_shard(name) not in self._shards for name in self._listing)
        self._former_object_count = len(states) + others
        self._former_source_count = len(_collect_ids(states.values())) + others

    def count_missing(
        self, new_states: Mapping[str, FileState], is_ignored: Callable[[str], bool]
    ) -> MissingCounts:
        """Count the objects and sources that disappeared since they were read.

        Args:
            new_states: The states of objects that were read in this run and have lost sources. The
                stored states still list these sources.
            is_ignored: Returns whether a source with this id never counts as missing.
        """
        former = self._collect_states()
        deleted = self.list_deleted()
        present_ids = _collect_ids(
            new_states.get(name, state) for name, state in former.items() if name in self._listing
        )
        former_ids = _collect_ids(former[name] for name in (*deleted, *new_states))
        missing = {source_id for source_id in former_ids - present_ids if not is_ignored(source_id)}
        return MissingCounts(
            missing_files=sum(not missing.isdisjoint(former[name].ids) for name in deleted),
            former_files=self._former_object_count,
            missing_texts=len(missing),
            former_texts=self._former_source_count,
        )

    def list_unread(self) -> list[str]:
        """List the objects to read, by shard, so that each commit writes few shards."""
        loaded = (name for name in self._listing if assign_shard(name) in self._shards)
        return sorted((name for name in loaded if not self.is_current(name)), key=_make_shard_key)

    def list_deleted(self) -> list[str]:
        """List the objects that were read and are no longer in the bucket, by shard."""
        return sorted(self._collect_states().keys() - self._listing.keys(), key=_make_shard_key)

    def get(self, name: str) -> FileState:
        """Return the state of an object. An object that was never read has no sources."""
        return self._shards[assign_shard(name)].get(name, FileState(UNREAD))

    def register_sources(self, name: str, ids: Iterable[str]) -> None:
        """Record an object's sources before they are written.

        So every source in the database belongs to an object, even if the run is killed. An object
        with new sources counts as unread until `put` sets its state.
        """
        previous = self.get(name)
        if added := sorted(set(ids).difference(previous.ids)):
            self.put(name, FileState(UNREAD, (*previous.ids, *added)))

    def put(self, name: str, state: FileState) -> None:
        """Set the state of an object."""
        self._shards[assign_shard(name)][name] = state
        self._dirty_shards.add(assign_shard(name))

    def remove(self, name: str) -> None:
        """Remove the state of an object."""
        self._shards[assign_shard(name)].pop(name, None)
        self._dirty_shards.add(assign_shard(name))

    def find_objects_with(self, ids: Collection[str]) -> dict[str, set[str]]:
        """Find the multi-record objects that contain any of these sources.

        Returns:
            Which of the sources each object contains, by the object's name.
        """
        source_ids = set(ids)
        ids_by_object: dict[str, set[str]] = {}
        for name, state in self._collect_states().items():
            if is_multi_record(name) and (common := source_ids.intersection(state.ids)):
                ids_by_object[name] = common
        return ids_by_object

    def is_current(self, name: str) -> bool:
        """Return whether the current generation of an object was read completely."""
        return name in self._listing and self.get(name).generation == self._listing[name].generation

    async def store(self) -> None:
        """Write all changes since the last call, in one commit."""
        if self._dirty_shards:
            shards = {shard: self._shards[shard] for shard in self._dirty_shards}
            await self._followed.store(shards)
            self._dirty_shards.clear()

    async def _load(self, shards: Iterable[int]) -> None:
        shards = set(shards)
        self._shards |= {shard: {} for shard in shards}
        for name, state in (await self._followed.load_objects(shards)).items():
            self._shards[assign_shard(name)][name] = state

    def _collect_states(self) -> dict[str, FileState]:
        return {name: state for shard in self._shards.values() for name, state in shard.items()}


def _collect_ids(states: Iterable[FileState]) -> set[str]:
    return {source_id for state in states for source_id in state.ids}


def _make_shard_key(name: str) -> tuple[int, str]:
    """Return a key that sorts objects by shard."""
    return assign_shard(name), name


def is_multi_record(name: str) -> bool:
    """Return whether an object may contain several sources, whose ids do not contain its name."""
    return find_identity(PurePosixPath(name)) is not Identity.FILE

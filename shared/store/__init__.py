"""The only room that knows Firestore: one file per collection, and `Store` to reach them all."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Final

from google.cloud.firestore import AsyncClient

from shared.store.database import Database, Meter

if TYPE_CHECKING:
    from shared.store.chunk_lists import ChunkLists
    from shared.store.chunks import Chunks
    from shared.store.clusters import Clusters
    from shared.store.common_names import CommonNames, Remembered
    from shared.store.embedding_space import EmbeddingSpace
    from shared.store.extraction_upkeep import ExtractionUpkeep
    from shared.store.extractions import Extractions
    from shared.store.index_lists import IndexLists
    from shared.store.indexing import Indexing
    from shared.store.ingestion import Ingestion
    from shared.store.leases import Leases
    from shared.store.material_erasure import MaterialErasure
    from shared.store.material_queues import MaterialQueues
    from shared.store.materials import Materials
    from shared.store.roots import Roots
    from shared.store.runs import Runs
    from shared.store.sources import Sources
    from shared.store.steps import Steps
    from shared.store.tasks import Tasks
    from shared.store.topics import Topics
    from shared.store.traces import Traces


_AFTERMATH: Final = 0.005
"""Seconds."""


class Connection:
    """What a process keeps open: the client, and what it has learned about the database."""

    def __init__(self, project: str, database: str) -> None:
        """Connect on first use; the client belongs to the event loop that runs then."""
        self._project = project
        self._database = database
        self.confirmed: dict[tuple[str, int], float] = {}
        self.common_names: Remembered = {}

    @cached_property
    def client(self) -> AsyncClient:
        """The Firestore client."""
        return AsyncClient(project=self._project, database=self._database)

    async def aclose(self) -> None:
        """Close the client, if it was ever used."""
        if "client" in self.__dict__:
            # The async client has no public close; its channel must be closed on its own loop, and
            # what gRPC still has to tell that loop must find it open.
            await self.client._firestore_api.transport.close()  # noqa: SLF001
            await asyncio.sleep(_AFTERMATH)


class Store:
    """The collections, for one call or one run; the code of one is imported when it is used."""

    def __init__(self, connection: Connection, meter: Meter, *, read_only: bool = False) -> None:
        """Count in `meter` what is read and written through this store, if it may be."""
        self.database = Database(connection.client, meter, read_only=read_only)
        self._connection = connection

    @cached_property
    def chunks(self) -> Chunks:
        """Passages, by id, by vector and by date."""
        from shared.store.chunks import Chunks

        return Chunks(self.database)

    @cached_property
    def chunk_lists(self) -> ChunkLists:
        """Passages of a source in order, and how many."""
        from shared.store.chunk_lists import ChunkLists

        return ChunkLists(self.database)

    @cached_property
    def index_lists(self) -> IndexLists:
        """The lists of the knowledge base's terms and facets."""
        from shared.store.index_lists import KNOWLEDGE, IndexLists

        return IndexLists(self.database, KNOWLEDGE)

    @cached_property
    def sources(self) -> Sources:
        """Books, articles, documents."""
        from shared.store.sources import Sources

        return Sources(self.database)

    @cached_property
    def clusters(self) -> Clusters:
        """Topics."""
        from shared.store.clusters import Clusters

        return Clusters(self.database)

    @cached_property
    def extractions(self) -> Extractions:
        """Decisions, patterns, warnings and methodologies."""
        from shared.store.extractions import Extractions

        return Extractions(self.database)

    @cached_property
    def extraction_upkeep(self) -> ExtractionUpkeep:
        """What keeps them in order when some of them go."""
        from shared.store.extraction_upkeep import ExtractionUpkeep

        return ExtractionUpkeep(self.database)

    @cached_property
    def topics(self) -> Topics:
        """What extractions are about, counted."""
        from shared.store.topics import Topics

        return Topics(self.database)

    @cached_property
    def steps(self) -> Steps:
        """The work that waits on passages."""
        from shared.store.steps import Steps

        return Steps(self.database)

    @cached_property
    def ingestion(self) -> Ingestion:
        """What ingest compares and writes."""
        from shared.store.ingestion import Ingestion

        return Ingestion(self.database)

    @cached_property
    def roots(self) -> Roots:
        """The folders that were ingested from disk."""
        from shared.store.roots import Roots

        return Roots(self.database)

    @cached_property
    def indexing(self) -> Indexing:
        """What the index job writes."""
        from shared.store.indexing import Indexing

        return Indexing(self.database)

    @cached_property
    def runs(self) -> Runs:
        """What each run of a job did."""
        from shared.store.runs import Runs

        return Runs(self.database)

    @cached_property
    def leases(self) -> Leases:
        """One run of a job at a time."""
        from shared.store.leases import Leases

        return Leases(self.database)

    @cached_property
    def common_names(self) -> CommonNames:
        """The names that most passages bear, kept for a while."""
        from shared.store.common_names import CommonNames

        return CommonNames(self.database, self._connection.common_names)

    @cached_property
    def embedding_space(self) -> EmbeddingSpace:
        """The model that the base is embedded with."""
        from shared.store.embedding_space import EmbeddingSpace

        return EmbeddingSpace(self.database, self._connection.confirmed)

    @cached_property
    def traces(self) -> Traces:
        """Coding traces and their votes."""
        from shared.store.traces import Traces

        return Traces(self.database)

    @cached_property
    def trace_lists(self) -> IndexLists:
        """The lists of the traces' terms and tags."""
        from shared.store.index_lists import TRACES, IndexLists

        return IndexLists(self.database, TRACES)

    def tasks(self, user_id: str) -> Tasks:
        """One user's tasks."""
        from shared.store.tasks import Tasks

        return Tasks(self.database, user_id)

    def materials(self, user_id: str, task_id: str) -> Materials:
        """What one user brought to a task."""
        from shared.store.materials import Materials

        return Materials(self.database, user_id, task_id)

    def material_erasure(self, materials: Materials) -> MaterialErasure:
        """What erases the materials of a task."""
        from shared.store.material_erasure import MaterialErasure

        return MaterialErasure(self.database, materials)

    @cached_property
    def material_queues(self) -> MaterialQueues:
        """Materials of all users that wait for a job."""
        from shared.store.material_queues import MaterialQueues

        return MaterialQueues(self.database)


__all__ = ["Connection", "Meter", "Store"]

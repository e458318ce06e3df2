"""The only room that knows Firestore: one file per collection, and `Store` to reach them all."""

from __future__ import annotations

from functools import cached_property

from google.cloud.firestore import AsyncClient

from shared.store.chunk_lists import ChunkLists
from shared.store.chunks import Chunks
from shared.store.clusters import Clusters
from shared.store.common_names import CommonNames, Remembered
from shared.store.database import Database, Meter
from shared.store.embedding_space import EmbeddingSpace
from shared.store.index_lists import IndexLists
from shared.store.indexing import Indexing
from shared.store.ingestion import Ingestion
from shared.store.leases import Leases
from shared.store.repairing import Repairing
from shared.store.sources import Sources
from shared.store.steps import Steps


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
            # The async client has no public close; its channel must be closed on its own loop.
            await self.client._firestore_api.transport.close()  # noqa: SLF001


class Store:
    """The collections, for one call or one run."""

    def __init__(self, connection: Connection, meter: Meter) -> None:
        """Count in `meter` what is read and written through this store."""
        self.database = Database(connection.client, meter)
        self.chunks = Chunks(self.database)
        self.chunk_lists = ChunkLists(self.database)
        self.steps = Steps(self.database)
        self.indexing = Indexing(self.database)
        self.repairing = Repairing(self.database)
        self.index_lists = IndexLists(self.database)
        self.common_names = CommonNames(self.database, connection.common_names)
        self.ingestion = Ingestion(self.database)
        self.sources = Sources(self.database)
        self.clusters = Clusters(self.database)
        self.embedding_space = EmbeddingSpace(self.database, connection.confirmed)
        self.leases = Leases(self.database)


__all__ = ["Connection", "Meter", "Store"]

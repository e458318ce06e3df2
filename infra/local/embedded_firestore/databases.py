"""The databases of a folder, and clients that use them in this process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport

from infra.local.embedded_firestore.channel import PREFIX, InProcessChannel
from infra.local.embedded_firestore.definitions import Definitions
from infra.local.embedded_firestore.errors import invalid_argument, unimplemented
from infra.local.embedded_firestore.service import Service
from infra.local.embedded_firestore.storage import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NAME: Final = re.compile(rb"projects/([^/\x00-\x1f]+)/databases/([A-Za-z0-9()_-]+)")
_METHODS: Final = {
    "Commit": "commit",
    "BatchGetDocuments": "batch_get",
    "RunQuery": "run_query",
    "RunAggregationQuery": "run_aggregation_query",
    "ListDocuments": "list_documents",
    "ListCollectionIds": "list_collection_ids",
    "BeginTransaction": "begin_transaction",
    "Rollback": "rollback",
}


class Databases:
    """The databases of a folder, opened at their first call."""

    def __init__(
        self, folder: Path, definitions: Callable[[str], Definitions], *, durable: bool = True
    ) -> None:
        """Open nothing.

        Args:
            folder: Where the files are.
            definitions: Returns the indexes of a database by its name.
            durable: Whether answered commits survive a power failure.
        """
        self._folder = folder
        self._definitions = definitions
        self._durable = durable
        self._services: dict[tuple[str, str], Service] = {}

    async def route(self, method: str, data: bytes) -> list[bytes]:
        """Answer a call."""
        name = _METHODS.get(method.removeprefix(PREFIX))
        if name is None:
            raise unimplemented(method.removeprefix(PREFIX))
        match = _NAME.search(data)
        if not match:
            raise invalid_argument("The request names no database.")
        project, database = (part.decode() for part in match.groups())
        answer = await getattr(self.open(project, database), name)(data)
        return answer if isinstance(answer, list) else [answer]

    def open(self, project: str, database: str) -> Service:
        """Return the calls of a database."""
        service = self._services.get((project, database))
        if service is None:
            file = self._folder / project / f"{database.strip('()')}.sqlite"
            store = Store(file, self._definitions(database), durable=self._durable)
            service = self._services[project, database] = Service(store, project, database)
        return service

    def close(self) -> None:
        """Close all files."""
        for service in self._services.values():
            service.close()
        self._services.clear()

    def make_client(self, project: str, database: str = "(default)", **options: Any) -> AsyncClient:
        """Return Google's client of a database, whose calls stay in this process."""
        client = AsyncClient(
            project=project, database=database, credentials=AnonymousCredentials(), **options
        )
        transport = FirestoreGrpcAsyncIOTransport(channel=InProcessChannel(self.route))
        client._firestore_api_internal = FirestoreAsyncClient(  # noqa: SLF001
            transport=transport, client_options=ClientOptions()
        )
        return client

"""The databases of a folder, and Google's client of them in this process."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport

from infra.local.embedded_firestore import protos
from infra.local.embedded_firestore.channel import InProcessChannel
from infra.local.embedded_firestore.errors import invalid_argument, unimplemented
from infra.local.embedded_firestore.files import make_file_error
from infra.local.embedded_firestore.service import Service
from infra.local.embedded_firestore.storage import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.local.embedded_firestore.definitions import Definitions

_NAME: Final = re.compile(
    r"projects/([a-z0-9.:-]+)/databases/([a-z0-9-]+|\(default\))(?:/.*)?", re.DOTALL
)


class _Call(NamedTuple):
    """How a call is read and answered.

    Attributes:
        request: The class of the request.
        method: The service's method.
        name: The request's field that names the database, or something in it.
    """

    request: Any
    method: str
    name: str


_CALLS: Final = {
    "BatchGetDocuments": _Call(protos.BatchGetDocumentsRequest, "batch_get", "database"),
    "BeginTransaction": _Call(protos.BeginTransactionRequest, "begin_transaction", "database"),
    "Commit": _Call(protos.CommitRequest, "commit", "database"),
    "ListCollectionIds": _Call(protos.ListCollectionIdsRequest, "list_collection_ids", "parent"),
    "ListDocuments": _Call(protos.ListDocumentsRequest, "list_documents", "parent"),
    "Rollback": _Call(protos.RollbackRequest, "rollback", "database"),
    "RunAggregationQuery": _Call(
        protos.RunAggregationQueryRequest, "run_aggregation_query", "parent"
    ),
    "RunQuery": _Call(protos.RunQueryRequest, "run_query", "parent"),
}


class Databases:
    """The databases of a folder, a file for each project and database, opened at their first call.

    Several processes may use a folder at once. Within a process, one event loop after another may.
    """

    def __init__(
        self, folder: Path, definitions: Callable[[str], Definitions], *, durable: bool = True
    ) -> None:
        """Open nothing.

        Args:
            folder: Where the files are.
            definitions: Returns the indexes of a database by its name.
            durable: Whether answered commits survive a power failure. They survive the end of the
                process in any case.
        """
        self._folder = folder
        self._definitions = definitions
        self._durable = durable
        self._process = os.getpid()
        self._services: dict[tuple[str, str], Service] = {}

    async def route(self, name: str, data: bytes) -> list[bytes]:
        """Answer a call of the API by its name, with one response or, where it streams, any number.

        Raises:
            FirestoreError: The answer is an error.
        """
        call = _CALLS.get(name)
        if call is None:
            raise unimplemented(name)
        request = call.request.FromString(data)
        match = _NAME.fullmatch(getattr(request, call.name))
        if not match:
            raise invalid_argument(
                f'"{getattr(request, call.name)}" is not the name of a database.'
            )
        service = self.open(*match.groups())
        try:
            responses: list[bytes] = await getattr(service, call.method)(request)
        except apsw.Error as error:
            raise make_file_error(service.store.path, error) from error
        return responses

    def open(self, project: str, database: str = "(default)") -> Service:
        """Return the calls of a database, whose file is opened if it is not.

        Raises:
            DatabaseFileError: The file cannot be opened.
        """
        if os.getpid() != self._process:
            # SQLite's connections do not survive a fork, and closing them here would release locks.
            _inherited.append(self._services)
            self._services, self._process = {}, os.getpid()
        service = self._services.get((project, database))
        if service is None:
            file = self._folder / project / f"{database.strip('()')}.sqlite"
            store = Store(file, self._definitions(database), durable=self._durable)
            service = self._services[project, database] = Service(store, project, database)
        return service

    def close(self) -> None:
        """Close all files."""
        if os.getpid() == self._process:
            for service in self._services.values():
                service.close()
            self._services.clear()

    def make_client(self, project: str, database: str = "(default)", **options: Any) -> AsyncClient:
        """Open a database, and return Google's client of it, whose calls stay in this process.

        Raises:
            DatabaseFileError: The file cannot be opened.
        """
        self.open(project, database)
        client = AsyncClient(
            project=project, database=database, credentials=AnonymousCredentials(), **options
        )
        transport = FirestoreGrpcAsyncIOTransport(channel=InProcessChannel(self.route))
        client._firestore_api_internal = FirestoreAsyncClient(  # noqa: SLF001
            transport=transport, client_options=ClientOptions()
        )
        return client


_inherited: Final[list[Any]] = []
"""What a parent process had open. It is kept, so that nothing closes it."""

"""Sends requests to Firestore, and decodes its responses.

It uses Google's generated client, because the `AsyncClient` above it copies each document twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1 import types

from shared.core.errors import PlatformFault
from shared.core.target import get_target
from shared.firestore.documents import Document, Reference, to_time
from shared.firestore.protos import (
    BatchGetDocumentsRequest,
    CommitRequest,
    RunAggregationQueryRequest,
    RunQueryRequest,
)
from shared.firestore.values import decode_fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable, Sequence

    from google.api_core.datetime_helpers import DatetimeWithNanoseconds

    from shared.firestore.queries import Query
    from shared.firestore.writes import Write

_CLOSING_SECONDS: Final = 0.005
"""gRPC may send callbacks to the event loop for this long after its channel is closed."""


def _make_client(project: str, database: str) -> AsyncClient:
    return AsyncClient(project=project, database=database)


class Connection:
    """The Firestore client of a process and the caches of its repositories."""

    def __init__(self, project: str, database: str) -> None:
        """Prepare a connection. The client connects on first use, and belongs to that event loop.

        Args:
            project: The id of the Google Cloud project.
            database: The name of the Firestore database.
        """
        self._project = project
        self._database = database
        self.caches: defaultdict[str, dict[Any, Any]] = defaultdict(dict)

    @cached_property
    def client(self) -> AsyncClient:
        """The Firestore client.

        Raises:
            PlatformFault: This process has no target (`shared.core.target`).
            Unavailable: The target's files cannot be opened.
        """
        target = get_target()
        if target is None:
            raise PlatformFault("No database is chosen for this process.")
        make_client = target.make_client or _make_client
        return make_client(self._project, self._database)

    async def aclose(self) -> None:
        """Close the client, if it was used."""
        if "client" in self.__dict__:  # the cached property was used
            # The async client has no public close. Its channel must be closed on its own loop, and
            # the loop must run until gRPC's last callbacks have arrived.
            await self.client._firestore_api.transport.close()  # noqa: SLF001
            await asyncio.sleep(_CLOSING_SECONDS)

    async def load(
        self, references: Sequence[Reference], fields: Sequence[str] | None = None
    ) -> list[Document]:
        """Read documents, or some of their fields, in any order.

        Missing documents are included, without fields. Duplicates are dropped.
        """
        names = dict.fromkeys(f"{self._root}/{reference.path}" for reference in references)
        request = BatchGetDocumentsRequest(database=self._database_name, documents=names)
        if fields is not None:
            request.mask.SetInParent()
            request.mask.field_paths.extend(fields)
        responses = await self._api.batch_get_documents(
            request=types.BatchGetDocumentsRequest.wrap(request), metadata=self._metadata
        )
        return [
            self._decode(response.found, response.read_time)
            if response.HasField("found")
            else Document(self._parse_name(response.missing), {}, None, to_time(response.read_time))
            async for response in _unwrap(responses)
        ]

    async def run(self, query: Query) -> list[Document]:
        """Return the documents that match."""
        parent, structured_query = query.encode(self._root)
        request = RunQueryRequest(parent=parent, structured_query=structured_query)
        responses = await self._api.run_query(
            request=types.RunQueryRequest.wrap(request), metadata=self._metadata
        )
        return [
            self._decode(response.document, response.read_time)
            async for response in _unwrap(responses)
            if response.HasField("document")
        ]

    async def count(self, query: Query) -> int:
        """Count the documents that match."""
        parent, structured_query = query.encode(self._root)
        request = RunAggregationQueryRequest(parent=parent)
        aggregation = request.structured_aggregation_query
        aggregation.structured_query.CopyFrom(structured_query)
        aggregation.aggregations.add(alias="count").count.SetInParent()
        responses = await self._api.run_aggregation_query(
            request=types.RunAggregationQueryRequest.wrap(request), metadata=self._metadata
        )
        [response] = [response async for response in _unwrap(responses)]
        return int(response.result.aggregate_fields["count"].integer_value)

    def build_commit(self, writes: Iterable[Write]) -> Any:
        """Return the request that commits the writes. It has one of `writes` for each document."""
        request = CommitRequest(database=self._database_name)
        for write in writes:
            request.writes.extend(write.encode(self._root))
        return request

    async def commit(self, request: Any) -> DatetimeWithNanoseconds:
        """Send a commit, and return the update time of the documents that it changed."""
        response = await self._api.commit(
            request=types.CommitRequest.wrap(request), metadata=self._metadata
        )
        return to_time(response._pb.commit_time)  # noqa: SLF001 - the wrapper rounds it

    # Google's client has these three only privately.

    @property
    def _api(self) -> Any:
        return self.client._firestore_api  # noqa: SLF001

    @property
    def _database_name(self) -> str:
        return str(self.client._database_string)  # noqa: SLF001

    @property
    def _metadata(self) -> Any:
        return self.client._rpc_metadata  # noqa: SLF001

    @property
    def _root(self) -> str:
        """The beginning of every document's name."""
        return f"{self._database_name}/documents"

    def _decode(self, document: Any, read_time: Any) -> Document:
        reference = self._parse_name(document.name)
        # Nothing may refer to the response, which would stay in memory as long as the document.
        return Document(
            reference,
            decode_fields(document.fields),
            to_time(document.update_time),
            to_time(read_time),
        )

    def _parse_name(self, name: str) -> Reference:
        return Reference.parse(name.removeprefix(f"{self._root}/"))


async def _unwrap(responses: AsyncIterable[Any]) -> AsyncIterable[Any]:
    """Yield the protobufs of responses, which are quicker to read than their wrappers."""
    async for response in responses:
        yield response._pb  # noqa: SLF001

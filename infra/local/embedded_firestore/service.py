"""Firestore's calls, on serialized requests and responses."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import apsw
import grpc
from google.cloud.firestore_v1 import types
from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.embedded_firestore import values, vectors
from infra.local.embedded_firestore.commits import Commit, check_id, get_path
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.embedded_firestore.documents import get_number, get_value, parse_path, select, set_value
from infra.local.embedded_firestore.errors import FirestoreError, invalid_argument, unimplemented
from infra.local.embedded_firestore.protos import DocumentProto
from infra.local.embedded_firestore.queries import NAME, Query, read_query
from infra.local.embedded_firestore.scans import (
    IndexNotBuilt,
    Row,
    count,
    decode_key,
    decode_name,
    get_collection_key,
    get_collection_path,
    make_missing_index_error,
    plan,
    read,
    read_row,
)
from infra.local.embedded_firestore.storage import Store, parse_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Protos: Final = types
_TRANSACTION_SECONDS: Final = 270


@dataclass(slots=True)
class _Transaction:
    connection: apsw.Connection
    started: float
    read_only: bool
    reads: list[tuple[Callable[[apsw.Connection], bytes], bytes]] = field(default_factory=list)


class Service:
    """The calls of one database."""

    def __init__(self, store: Store, project: str, database: str) -> None:
        """Serve a store under the names of a project and database."""
        self.store = store
        self.name = f"projects/{project}/databases/{database}"
        self.root = f"{self.name}/documents"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="firestore-writer")
        self._transactions: dict[bytes, _Transaction] = {}

    def close(self) -> None:
        """Wait for the last commit, and close the file."""
        self._thread.shutdown()
        for transaction in self._transactions.values():
            transaction.connection.close()
        self.store.close()

    # Writing

    async def commit(self, data: bytes) -> bytes:
        """Commit."""
        request = types.CommitRequest.pb().FromString(data)
        return await self._in_thread(self._commit, request)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the writer's thread. Once it has begun, it runs to its end."""
        future = self._thread.submit(function, *arguments)
        return await asyncio.wrap_future(future)

    def _commit(self, request: Any) -> bytes:
        response = types.CommitResponse.pb()()
        with self._write():
            if request.transaction:
                self._check_transaction(request.transaction)
            Commit(self.store, self.root).apply(request.writes, response)
        if request.transaction:
            self._end(request.transaction)
        return bytes(response.SerializeToString())

    @contextmanager
    def _write(self) -> Iterator[None]:
        writer = self.store.writer
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise FirestoreError(
                grpc.StatusCode.ABORTED, "Too much contention: other processes write. Try again."
            ) from error
        try:
            yield
            writer.execute("COMMIT")
        except BaseException:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise

    def _build(self, index: Index) -> None:
        with self._write():
            self.store.build_index(index)

    # Reading

    async def _read(self, function: Callable[[apsw.Connection], Any], transaction: bytes) -> Any:
        """Call a function with a connection in a transaction, and build the indexes it needs."""
        while True:
            try:
                if transaction:
                    return function(self._get(transaction).connection)
                with self.store.reader:
                    return function(self.store.reader)
            except IndexNotBuilt as error:
                await self._in_thread(self._build, error.index)
                if transaction:
                    started = self._get(transaction)
                    started.connection.execute("ROLLBACK")
                    started.connection.execute("BEGIN")

    async def batch_get(self, data: bytes) -> list[bytes]:
        """Read documents by name."""
        request = types.BatchGetDocumentsRequest.pb().FromString(data)
        transaction, is_new = self._use(request)
        mask = (
            [parse_path(each) for each in request.mask.field_paths]
            if request.HasField("mask")
            else None
        )
        paths = [get_path(self.root, name) for name in dict.fromkeys(request.documents)]

        def run(connection: apsw.Connection) -> list[Row | None]:
            return [read_row(self.store, connection, path) for path in paths]

        rows = await self._read(run, transaction)
        self._record(transaction, run, rows)
        responses = []
        response_type = types.BatchGetDocumentsResponse.pb()
        if is_new:
            responses.append(response_type(transaction=transaction).SerializeToString())
        read_time = _now()
        for path, row in zip(paths, rows, strict=True):
            response = response_type(read_time=read_time)
            if row:
                response.found.ParseFromString(self.make_document(row, mask))
            else:
                response.missing = f"{self.root}/{path}"
            responses.append(response.SerializeToString())
        return responses

    def make_document(self, row: Row, mask: Sequence[Any] | None = None) -> bytes:
        """Return a serialized document."""
        document = DocumentProto(name=f"{self.root}/{row.path}")
        document.create_time.FromMicroseconds(row.created)
        document.update_time.FromMicroseconds(row.updated)
        if mask is None:
            return bytes(document.SerializeToString() + row.body)
        if mask:
            select(parse_fields(row.body), mask, document.fields)
        return bytes(document.SerializeToString())

    async def run_query(self, data: bytes) -> list[bytes]:
        """Run a query."""
        request = types.RunQueryRequest.pb().FromString(data)
        if request.HasField("explain_options"):
            raise unimplemented("explain_options")
        transaction, is_new = self._use(request)
        query = read_query(self.root, self._get_parent(request.parent), request.structured_query)
        response_type = types.RunQueryResponse.pb()
        read_time = _now()
        responses = []
        if is_new:
            responses.append(response_type(transaction=transaction, read_time=read_time))
        if query.nearest:
            pairs = await self._read(lambda each: self._find_nearest(each, query), transaction)
        else:
            scans = plan(query, self.store.definitions)

            def run(connection: apsw.Connection) -> list[Row | None]:
                return list(read(self.store, connection, query, scans))

            rows = await self._read(run, transaction)
            self._record(transaction, run, rows)
            pairs = [(row, None) for row in rows]
        for row, distance in pairs:
            response = response_type(read_time=read_time)
            response.document.ParseFromString(self.make_document(row, query.select))
            if distance is not None and query.nearest and query.nearest.distance:
                value = values.ValueProto(double_value=distance)
                set_value(response.document.fields, query.nearest.distance, value)
            responses.append(response)
        if query.offset and responses:
            pass
        if not pairs:
            responses.append(response_type(read_time=read_time))
        return [response.SerializeToString() for response in responses]

    def _find_nearest(
        self, connection: apsw.Connection, query: Query
    ) -> list[tuple[Row, float]]:
        nearest = query.nearest
        assert nearest
        definition = self._find_vector_index(query)
        stored = self.store.load_indexes(connection).get(definition)
        if stored is None:
            raise IndexNotBuilt(definition)
        if query.group:
            scope = b""
        else:
            collection = self.store.find_collection(connection, get_collection_path(query))
            if collection is None:
                return []
            scope = b"%d" % collection
        keys = None
        if query.conjunctions != [()]:
            prefix = b"" if query.group else get_collection_key(query)
            inner = Definitions(self.store.definitions.indexes, (), (), builds_missing=True)
            scans = plan(query, inner)
            keys = {row.key[len(prefix) :] for row in read(self.store, connection, query, scans)}
        found = self.store.matrices.find(
            connection,
            vectors.Space(stored.id, scope),
            vectors.Nearest(
                nearest.vector, vectors.Measure(nearest.measure), nearest.limit, nearest.threshold
            ),
            keys,
        )
        result = []
        for key, distance in found:
            path = decode_key(key) if query.group else (
                f"{get_collection_path(query)}/{decode_name(key)}"
            )
            row = read_row(self.store, connection, path)
            if row:
                result.append((row, distance))
        return result

    def _find_vector_index(self, query: Query) -> Index:
        """Return the index of the vectors, without the fields of filters."""
        nearest = query.nearest
        assert nearest
        dimension = len(nearest.vector)
        plain = Index(query.collection, query.group, (), nearest.path, dimension)
        filters = {
            (each.path, each.operator == "ARRAY_CONTAINS")
            for conjunction in query.conjunctions
            for each in conjunction
        }
        if self.store.definitions.builds_missing or any(
            index.group == query.group
            and index.vector == nearest.path
            and index.dimension == dimension
            and {(path, kind is Kind.CONTAINS) for path, kind in index.fields} == filters
            for index in self.store.definitions.vectors(query.collection)
        ):
            return plain
        fields = tuple(
            (path, Kind.CONTAINS if is_array else Kind.ASCENDING)
            for path, is_array in sorted(filters)
        )
        raise make_missing_index_error(
            Index(query.collection, query.group, fields, nearest.path, dimension)
        )

    async def run_aggregation_query(self, data: bytes) -> list[bytes]:
        """Aggregate a query's documents."""
        request = types.RunAggregationQueryRequest.pb().FromString(data)
        if request.HasField("explain_options"):
            raise unimplemented("explain_options")
        transaction, is_new = self._use(request)
        proto = request.structured_aggregation_query
        query = read_query(self.root, self._get_parent(request.parent), proto.structured_query)
        scans = plan(query, self.store.definitions)

        def run(connection: apsw.Connection) -> dict[str, Any]:
            return self._aggregate(connection, query, scans, proto.aggregations)

        fields = await self._read(run, transaction)
        response = types.RunAggregationQueryResponse.pb()(read_time=_now())
        if is_new:
            response.transaction = transaction
        for name, value in fields.items():
            response.result.aggregate_fields[name].CopyFrom(value)
        return [response.SerializeToString()]

    def _aggregate(
        self, connection: apsw.Connection, query: Query, scans: Any, aggregations: Any
    ) -> dict[str, Any]:
        result = {}
        rows = None
        for number, aggregation in enumerate(aggregations, start=1):
            alias = aggregation.alias or f"field_{number}"
            operator = aggregation.WhichOneof("operator")
            if operator == "count":
                up_to = aggregation.count.up_to.value if aggregation.count.HasField("up_to") else None
                total = count(self.store, connection, query, scans, up_to)
                result[alias] = values.ValueProto(integer_value=total)
                continue
            path = parse_path(getattr(aggregation, operator).field.field_path)
            if rows is None:
                rows = [
                    parse_fields(row.body) for row in read(self.store, connection, query, scans)
                ]
            numbers = [
                number
                for value in (get_value(fields, path) for fields in rows)
                if value is not None and (number := get_number(value)) is not None
            ]
            result[alias] = _sum(numbers) if operator == "sum" else _average(numbers)
        return result

    async def list_documents(self, data: bytes) -> bytes:
        """List documents, and with `show_missing` also missing ones that have collections."""
        request = types.ListDocumentsRequest.pb().FromString(data)
        transaction, _ = self._use(request)
        parent = self._get_parent(request.parent)
        proto = types.StructuredQuery.pb()()
        proto.from_.add(collection_id=request.collection_id)
        if request.order_by:
            for part in request.order_by.split(","):
                path, _, direction = part.strip().partition(" ")
                order = proto.order_by.add(direction=2 if direction.lower() == "desc" else 1)
                order.field.field_path = path
        query = read_query(self.root, parent, proto)
        scans = plan(query, self.store.definitions)

        def run(connection: apsw.Connection) -> list[Row]:
            rows = list(read(self.store, connection, query, scans))
            if not request.show_missing:
                return rows
            known = {row.path for row in rows}
            missing = [
                Row(values.encode_path(path), path, b"", -1, -1)
                for path in self._list_parents(connection, get_collection_path(query))
                if path not in known
            ]
            return sorted([*rows, *missing], key=lambda row: row.key)

        rows = await self._read(run, transaction)
        start = int(request.page_token or 0)
        size = request.page_size or 300
        response = types.ListDocumentsResponse.pb()()
        mask = (
            [parse_path(each) for each in request.mask.field_paths]
            if request.HasField("mask")
            else None
        )
        for row in rows[start : start + size]:
            if row.created < 0:
                response.documents.add(name=f"{self.root}/{row.path}")
            else:
                response.documents.add().ParseFromString(self.make_document(row, mask))
        if start + size < len(rows):
            response.next_page_token = str(start + size)
        return bytes(response.SerializeToString())

    def _list_parents(self, connection: apsw.Connection, collection: str) -> list[str]:
        """Return the documents of a collection, present or missing, that have documents below."""
        depth = collection.count("/") + 2
        return sorted({
            "/".join(path.split("/")[:depth])
            for path in self._list_collections(connection, collection + "/")
        })

    def _list_collections(self, connection: apsw.Connection, prefix: str) -> list[str]:
        """Return the paths of collections that have documents and begin with a prefix."""
        statement = (
            "SELECT path FROM collections WHERE path >= ? AND path < ? AND EXISTS"
            " (SELECT 1 FROM documents WHERE collection = collections.id)"
        )
        stop = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else "\U0010ffff"
        return [path for (path,) in connection.execute(statement, (prefix, stop))]

    async def list_collection_ids(self, data: bytes) -> bytes:
        """List the collections of a document, or of the root."""
        request = types.ListCollectionIdsRequest.pb().FromString(data)
        if request.HasField("read_time"):
            raise unimplemented("read_time")
        parent = self._get_parent(request.parent)
        prefix = f"{parent}/" if parent else ""

        def run(connection: apsw.Connection) -> list[str]:
            return self._list_collections(connection, prefix)

        paths = await self._read(run, b"")
        names = {path.removeprefix(prefix).split("/")[0] for path in paths}
        response = types.ListCollectionIdsResponse.pb()(collection_ids=sorted(names))
        return bytes(response.SerializeToString())

    def _get_parent(self, name: str) -> str:
        if name == self.root:
            return ""
        return get_path(self.root, name)

    # Transactions

    async def begin_transaction(self, data: bytes) -> bytes:
        """Begin a transaction."""
        request = types.BeginTransactionRequest.pb().FromString(data)
        transaction = self._begin(request.options)
        return bytes(types.BeginTransactionResponse.pb()(transaction=transaction).SerializeToString())

    def _begin(self, options: Any) -> bytes:
        if options.read_only.HasField("read_time"):
            raise unimplemented("read_time")
        now = time.monotonic()
        for name, old in list(self._transactions.items()):
            if now - old.started > _TRANSACTION_SECONDS:
                self._end(name)
        connection = self.store.connect()
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM meta").get  # noqa: B018 - takes the snapshot
        name = secrets.token_bytes(12)
        read_only = options.WhichOneof("mode") == "read_only"
        self._transactions[name] = _Transaction(connection, now, read_only)
        return name

    async def rollback(self, data: bytes) -> bytes:
        """Forget a transaction."""
        request = types.RollbackRequest.pb().FromString(data)
        self._get(request.transaction)
        self._end(request.transaction)
        return b""

    def _get(self, name: bytes) -> _Transaction:
        if name not in self._transactions:
            raise invalid_argument("The referenced transaction has expired or is no longer valid.")
        return self._transactions[name]

    def _end(self, name: bytes) -> None:
        self._transactions.pop(name).connection.close()

    def _use(self, request: Any) -> tuple[bytes, bool]:
        """Return the transaction of a request, and whether it is new."""
        match request.WhichOneof("consistency_selector"):
            case "transaction":
                self._get(request.transaction)
                return request.transaction, False
            case "new_transaction":
                return self._begin(request.new_transaction), True
            case "read_time":
                raise unimplemented("read_time")
        return b"", False

    def _record(self, name: bytes, run: Callable[[apsw.Connection], Any], rows: Any) -> None:
        if name and not self._get(name).read_only:
            self._get(name).reads.append((run, _fingerprint(rows)))

    def _check_transaction(self, name: bytes) -> None:
        """Raise an error unless all that a transaction has read is still the same."""
        transaction = self._get(name)
        for run, fingerprint in transaction.reads:
            if _fingerprint(run(self.store.writer)) != fingerprint:
                self._end(name)
                raise FirestoreError(
                    grpc.StatusCode.ABORTED,
                    "A document that the transaction read has changed. Try again.",
                )


def _fingerprint(rows: Sequence[Row | None]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(b"-" if row is None else row.key + b"%d" % row.updated)
    return digest.digest()


def _now() -> Timestamp:
    moment = Timestamp()
    moment.FromMicroseconds(time.time_ns() // 1_000)
    return moment


def _sum(numbers: Sequence[float]) -> Any:
    integers = [number for number in numbers if isinstance(number, int)]
    total = sum(integers)
    if len(integers) == len(numbers) and -(2**63) <= total < 2**63:
        return values.ValueProto(integer_value=total)
    return values.ValueProto(double_value=float(sum(numbers, 0.0)))


def _average(numbers: Sequence[float]) -> Any:
    if not numbers:
        return values.ValueProto(null_value=0)
    return values.ValueProto(double_value=float(sum(numbers) / len(numbers)))

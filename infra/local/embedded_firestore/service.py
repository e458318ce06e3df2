"""Firestore's calls: from a parsed request to serialized responses."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from google.protobuf.internal.encoder import _VarintBytes
from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.embedded_firestore import protos, vectors
from infra.local.embedded_firestore.aggregations import aggregate, read_aliases, read_fields
from infra.local.embedded_firestore.commits import commit
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.embedded_firestore.documents import (
    parse_path,
    select,
    set_value,
)
from infra.local.embedded_firestore.entries import make_space
from infra.local.embedded_firestore.errors import invalid_argument, unimplemented
from infra.local.embedded_firestore.expiry import Expiry
from infra.local.embedded_firestore.limits import MAX_REQUEST_BYTES, get_path
from infra.local.embedded_firestore.planner import make_missing_index_error, plan
from infra.local.embedded_firestore.protos import DocumentProto, ValueProto
from infra.local.embedded_firestore.queries import Cursor, read_query
from infra.local.embedded_firestore.scans import (
    IndexNotBuilt,
    Row,
    read,
    read_document,
    read_names,
)
from infra.local.embedded_firestore.storage import START
from infra.local.embedded_firestore.transactions import Transactions
from infra.local.embedded_firestore.values import decode_name, decode_path, encode_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import apsw

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.entries import StoredIndex
    from infra.local.embedded_firestore.planner import Scan
    from infra.local.embedded_firestore.queries import NearestQuery, Query
    from infra.local.embedded_firestore.storage import Place, Store
    from infra.local.embedded_firestore.transactions import Read

DEFAULT_PAGE: Final = 300
"""The documents of a page of `ListDocuments` that names no size."""


class Service:
    """The calls of one database.

    Reads of named documents take a fraction of a millisecond, and run in the event loop's thread.
    Queries have a thread of their own, and so have commits.
    """

    def __init__(self, store: Store, project: str, database: str) -> None:
        """Serve a store under the names of a project and database."""
        self.store = store
        self.root = f"projects/{project}/databases/{database}/documents"
        self._transactions = Transactions(store)
        self._scanning = ThreadPoolExecutor(1, thread_name_prefix="firestore-scan")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="firestore-write")
        self._reading = threading.Lock()
        self._building: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._expiry = Expiry(store, self.root, self._writing)

    def close(self) -> None:
        """Wait for the calls in progress, and close the file."""
        self._writing.shutdown()
        self._scanning.shutdown()
        self._transactions.close()
        self.store.close()

    # Threads

    async def _read(self, read: Read, transaction: bytes = b"", *, is_quick: bool = False) -> Any:
        """Return the results of a read at one moment, after building the indexes that it needs."""
        self.store.require_usable()
        while True:  # as often as an index is missing
            try:
                if transaction:
                    opened = self._transactions.get(transaction)
                    return await self._run(self._scanning, opened.read, read)
                if is_quick:
                    with self._reading:
                        return _read_once(self.store.reader, read)
                return await self._run(self._scanning, _read_once, self.store.scanner, read)
            except IndexNotBuilt as error:
                await self._build(error.index)
                if transaction:
                    self._transactions.get(transaction).restart()

    async def _write(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a transaction of the writer. Once it has begun, it runs to its end."""

        def write() -> Any:
            with self.store.write():
                return function(*arguments)

        return await self._run(self._writing, write)

    async def _run(self, executor: ThreadPoolExecutor, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)

    async def _build(self, index: Index) -> None:
        """Build an index, and all others of its collection that are not built.

        Most of the time goes into reading the documents. Other calls wait for some of them, and
        some were left by a process that was killed. What another process builds right now is built
        twice, with the same result.
        """
        await self._write(self.store.register_index, index)
        loop = asyncio.get_running_loop()
        async with self._building.setdefault(loop, asyncio.Lock()):
            await self._run(self._scanning, int)  # queries that began before it register theirs
            unbuilt = await self._write(self.store.list_unbuilt, index)
            after: Place | None = START if unbuilt else None
            while after is not None:
                after = await self._write(self.store.build_indexes, unbuilt, after)

    # Commits

    async def commit(self, request: Any) -> list[bytes]:
        """Apply writes, all or none."""
        if request.ByteSize() > MAX_REQUEST_BYTES:
            raise invalid_argument(f"A request has at most {MAX_REQUEST_BYTES:,} bytes.")
        response = await self._write(self._commit, request)
        self._expiry.sweep_if_due()
        return [response.SerializeToString()]

    def _commit(self, request: Any) -> Any:
        if not request.transaction:
            return commit(self.store, self.root, request.writes)
        try:
            self._transactions.get(request.transaction).check(self.store.writer)
            return commit(self.store, self.root, request.writes)
        finally:
            self._transactions.end(request.transaction)

    # Reads

    async def batch_get(self, request: Any) -> list[bytes]:
        """Read documents by name. The missing ones are the last of the answer."""
        transaction, is_new = self._select_transaction(request)
        mask = _read_mask(request)
        paths = [get_path(self.root, name) for name in dict.fromkeys(request.documents)]

        def read(connection: apsw.Connection) -> list[Row | None]:
            return [read_document(self.store, connection, path) for path in paths]

        rows = await self._read(read, transaction, is_quick=True)
        rest = protos.BatchGetDocumentsResponse(read_time=_get_read_time(rows))
        serialized = rest.SerializeToString()
        responses = []
        if is_new:
            first = protos.BatchGetDocumentsResponse(transaction=transaction)
            responses.append(first.SerializeToString())
        responses += [_embed(self._make_document(row, mask)) + serialized for row in rows if row]
        for path, row in zip(paths, rows, strict=True):
            if row is None:
                rest.missing = f"{self.root}/{path}"
                responses.append(rest.SerializeToString())
        return responses

    async def run_query(self, request: Any) -> list[bytes]:
        """Run a query."""
        _refuse(request, "explain_options")
        transaction, is_new = self._select_transaction(request)
        query = self._read_query(request.parent, request.structured_query)
        if query.nearest:
            pairs = await self._read(self._plan_nearest(query, query.nearest), transaction)
        else:
            scans = plan(query, self.store.definitions)
            rows = await self._read(
                lambda connection: list(read(self.store, connection, query, scans)), transaction
            )
            pairs = [(row, None) for row in rows]
        rest = protos.RunQueryResponse(read_time=_get_read_time(row for row, _ in pairs))
        serialized = rest.SerializeToString()
        responses = []
        if is_new:
            rest.transaction = transaction
        if is_new or not pairs:
            responses.append(rest.SerializeToString())
        for row, distance in pairs:
            document = self._make_document(row, query.select)
            if query.nearest and query.nearest.distance_field:
                document = _add_distance(document, query.nearest.distance_field, distance)
            responses.append(_embed(document) + serialized)
        return responses

    def _plan_nearest(self, query: Query, nearest: NearestQuery) -> Read:
        """Return the read of a vector query, which yields documents and distances."""
        filters = {
            (
                condition.path,
                Kind.CONTAINS if condition.operator == "ARRAY_CONTAINS" else Kind.ASCENDING,
            )
            for conjunction in query.conjunctions
            for condition in conjunction
        }
        dimension = len(nearest.vector)
        index = Index(
            query.collection, query.group, tuple(sorted(filters, key=repr)), nearest.path, dimension
        )
        if not self.store.definitions.has(index):
            raise make_missing_index_error(index)
        plain = Index(query.collection, query.group, (), nearest.path, dimension)
        # The vector index has the filters' fields, so the filters need no index that is defined.
        is_filtered = query.conjunctions != [()]
        scans = plan(query, Definitions(builds_missing=True)) if is_filtered else None

        def read(connection: apsw.Connection) -> list[tuple[Row, float]]:
            stored = self.store.find_index(connection, plain)
            if stored is None:
                raise IndexNotBuilt(plain)
            return self._find_nearest(connection, query, nearest, stored, scans)

        return read

    def _find_nearest(
        self,
        connection: apsw.Connection,
        query: Query,
        nearest: NearestQuery,
        stored: StoredIndex,
        scans: Sequence[Scan] | None,
    ) -> list[tuple[Row, float]]:
        collection = None if query.group else self.store.find_collection(connection, query.path)
        if collection is None and not query.group:
            return []
        neighbours = self.store.matrices.find(
            connection,
            make_space(stored, collection),
            vectors.Search(
                nearest.vector, vectors.Measure(nearest.measure), nearest.limit, nearest.threshold
            ),
            None if scans is None else read_names(self.store, connection, query, scans),
        )
        results = []
        for name, distance in neighbours:
            path = decode_path(name) if query.group else f"{query.path}/{decode_name(name)}"
            row = read_document(self.store, connection, path)
            if row:
                results.append((row, distance))
        return results

    async def run_aggregation_query(self, request: Any) -> list[bytes]:
        """Aggregate a query's documents."""
        _refuse(request, "explain_options")
        transaction, is_new = self._select_transaction(request)
        proto = request.structured_aggregation_query
        names = read_aliases(proto.aggregations)
        fields = read_fields(proto.aggregations)
        query = self._read_query(request.parent, proto.structured_query, fields)
        if query.nearest:
            raise unimplemented("aggregation of a vector query")
        scans = plan(query, self.store.definitions)

        results = await self._read(
            lambda connection: aggregate(self.store, connection, query, scans, proto.aggregations),
            transaction,
        )
        response = protos.RunAggregationQueryResponse(read_time=_get_read_time([]))
        if is_new:
            response.transaction = transaction
        for name, result in zip(names, results, strict=True):
            response.result.aggregate_fields[name].CopyFrom(result)
        return [response.SerializeToString()]

    async def list_documents(self, request: Any) -> list[bytes]:
        """List a page of a collection.

        With `show_missing`, it includes missing documents that have others below.
        """
        _refuse(request, "read_time")
        if request.order_by:
            raise unimplemented("order_by of ListDocuments")
        if not request.collection_id:
            raise unimplemented("ListDocuments of all collections")
        transaction, _ = self._select_transaction(request)
        size = request.page_size or DEFAULT_PAGE
        proto = protos.StructuredQuery(limit={"value": size + 1})
        proto.from_.add(collection_id=request.collection_id)
        query = self._read_query(request.parent, proto)
        if request.page_token:
            query.start = Cursor((encode_path(f"{query.path}/{request.page_token}"),), before=False)
        scans = plan(query, self.store.definitions)

        start = encode_path(request.page_token) if request.page_token else b""

        def list_rows(connection: apsw.Connection) -> list[Row]:
            rows = list(read(self.store, connection, query, scans))
            if request.show_missing:
                for path in self._list_parents(connection, query.path):
                    name = encode_path(path.rpartition("/")[2])
                    if name > start and not read_document(self.store, connection, path):
                        rows.append(Row(name, path, 0, 0, b""))
            return sorted(rows, key=lambda row: row.name)[: size + 1]

        rows = await self._read(list_rows, transaction)
        mask = _read_mask(request)
        parts = [
            _embed(self._make_document(row, mask) if row.updated else self._make_missing(row))
            for row in rows[:size]
        ]
        if len(rows) > size:
            last = rows[size - 1].path.rpartition("/")[2]
            parts.append(protos.ListDocumentsResponse(next_page_token=last).SerializeToString())
        return [b"".join(parts)]

    def _list_parents(self, connection: apsw.Connection, collection: str) -> set[str]:
        """Return the paths of documents, present or missing, that have others below."""
        depth = collection.count("/") + 2
        below = self._list_collections(connection, f"{collection}/")
        return {"/".join(path.split("/")[:depth]) for path in below}

    def _list_collections(self, connection: apsw.Connection, prefix: str) -> list[str]:
        """Return the paths of collections that have documents and begin with a prefix."""
        stop = f"{prefix[:-1]}0" if prefix else "\U0010ffff"  # "0" follows "/"
        rows = connection.execute(
            "SELECT path FROM collections WHERE path >= ? AND path < ? AND EXISTS"
            " (SELECT 1 FROM documents WHERE collection = collections.id)",
            (prefix, stop),
        )
        return [path for (path,) in rows]

    async def list_collection_ids(self, request: Any) -> list[bytes]:
        """List the collections of a document, or of the root."""
        _refuse(request, "read_time")
        parent = self._read_parent(request.parent)
        prefix = f"{parent}/" if parent else ""
        paths = await self._read(lambda connection: self._list_collections(connection, prefix))
        names = sorted({path.removeprefix(prefix).split("/")[0] for path in paths})
        start = names.index(request.page_token) if request.page_token in names else 0
        page = names[start : start + request.page_size] if request.page_size else names[start:]
        following = names[start + len(page) :]
        response = protos.ListCollectionIdsResponse(
            collection_ids=page, next_page_token=following[0] if following else ""
        )
        return [response.SerializeToString()]

    # Transactions

    async def begin_transaction(self, request: Any) -> list[bytes]:
        """Begin a transaction."""
        name = self._transactions.begin(request.options)
        return [protos.BeginTransactionResponse(transaction=name).SerializeToString()]

    async def rollback(self, request: Any) -> list[bytes]:
        """Forget a transaction."""
        self._transactions.end(request.transaction)
        return [b""]

    def _select_transaction(self, request: Any) -> tuple[bytes, bool]:
        """Return the name of a read's transaction, and whether the read has begun it."""
        match request.WhichOneof("consistency_selector"):
            case "transaction":
                self._transactions.get(request.transaction)
                return request.transaction, False
            case "new_transaction":
                return self._transactions.begin(request.new_transaction), True
            case "read_time":
                raise unimplemented("read_time")
        return b"", False

    # Messages

    def _read_parent(self, name: str) -> str:
        return "" if name == self.root else get_path(self.root, name)

    def _read_query(self, parent: str, proto: Any, required: Sequence[Path] = ()) -> Query:
        return read_query(self.root, self._read_parent(parent), proto, required)

    def _make_document(self, row: Row, mask: Sequence[Path] | None) -> bytes:
        """Return a serialized document, with all fields or only those at some paths."""
        document = DocumentProto(name=f"{self.root}/{row.path}")
        document.create_time.FromMicroseconds(row.created)
        document.update_time.FromMicroseconds(row.updated)
        if mask is None:
            return bytes(document.SerializeToString() + row.body)
        if mask:
            select(DocumentProto.FromString(row.body).fields, mask, document.fields)
        return bytes(document.SerializeToString())

    def _make_missing(self, row: Row) -> bytes:
        return bytes(DocumentProto(name=f"{self.root}/{row.path}").SerializeToString())


def _read_once(connection: apsw.Connection, read: Read) -> list[Any]:
    """Return the results of a read at one moment."""
    connection.execute("BEGIN")
    try:
        return read(connection)
    finally:
        connection.execute("COMMIT")


def _read_mask(request: Any) -> list[Path] | None:
    return (
        [parse_path(path) for path in request.mask.field_paths]
        if request.HasField("mask")
        else None
    )


def _refuse(request: Any, name: str) -> None:
    if request.HasField(name):
        raise unimplemented(name)


def _embed(document: bytes) -> bytes:
    """Return a document as the first field of a response, as it is in all that have one."""
    size: bytes = _VarintBytes(len(document))
    return b"\x0a" + size + document


def _add_distance(document: bytes, path: Path, distance: float | None) -> bytes:
    parsed = DocumentProto.FromString(document)
    set_value(parsed.fields, path, ValueProto(double_value=distance))
    return bytes(parsed.SerializeToString())


def _get_read_time(rows: Iterable[Row | None]) -> Timestamp:
    """Return the present time, or that of the last change if the clock was set back."""
    moment = Timestamp()
    changes = (row.updated for row in rows if row)
    moment.FromMicroseconds(max(time.time_ns() // 1_000, max(changes, default=0)))
    return moment

"""Requests of Firestore's API, and a comparable form of their answers.

A request names no project and no moment, so that it can be sent to several databases. A
precondition says `current` or `stale`, and an answer's times become the number of the commit that
set them.
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from google.api_core.exceptions import GoogleAPICallError
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.types import (
    AggregationResult,
    ArrayValue,
    BatchGetDocumentsRequest,
    CommitRequest,
    Cursor,
    Document,
    DocumentMask,
    DocumentTransform,
    ListCollectionIdsRequest,
    ListDocumentsRequest,
    MapValue,
    Precondition,
    RunAggregationQueryRequest,
    RunQueryRequest,
    StructuredAggregationQuery,
    StructuredQuery,
    Value,
)
from google.cloud.firestore_v1.types import Write as WriteProto
from google.protobuf.timestamp_pb2 import Timestamp
from google.type.latlng_pb2 import LatLng  # type: ignore[import-untyped]

_OWNER: Final = (("authorization", "Bearer owner"),)
"""What the emulator expects before it lists collections."""
_ROUNDING_ERROR: Final = 1e-12
Normal = Any
"""An answer in comparable form: nested tuples of strings and numbers."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to the document at a path."""

    path: str


@dataclass(frozen=True, slots=True)
class Point:
    """A geographical point."""

    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector."""

    components: tuple[float, ...]


def encode(value: object, root: str) -> Value:  # noqa: C901, PLR0911 - a case a type
    """Return a value of the API. References are below `root`."""
    match value:
        case None:
            return Value(null_value=0)
        case bool():
            return Value(boolean_value=value)
        case int():
            return Value(integer_value=value)
        case float():
            return Value(double_value=value)
        case str():
            return Value(string_value=value)
        case bytes():
            return Value(bytes_value=value)
        case datetime():
            return Value(timestamp_value=value)
        case Reference():
            return Value(reference_value=f"{root}/{value.path}")
        case Point():
            return Value(geo_point_value=LatLng(latitude=value.latitude, longitude=value.longitude))
        case Vector():
            components = [Value(double_value=component) for component in value.components]
            fields = {
                "__type__": Value(string_value="__vector__"),
                "value": Value(array_value=ArrayValue(values=components)),
            }
            return Value(map_value=MapValue(fields=fields))
        case list() | tuple():
            values = [encode(member, root) for member in value]
            return Value(array_value=ArrayValue(values=values))
        case dict():
            return Value(map_value=MapValue(fields=encode_fields(value, root)))
    raise TypeError(value)


def encode_fields(fields: dict[str, Any], root: str) -> dict[str, Value]:
    """Return the fields of a document or map."""
    return {name: encode(value, root) for name, value in fields.items()}


@dataclass(frozen=True, slots=True)
class Write:
    """A write.

    Attributes:
        path: The document.
        fields: The new fields, or None to delete the document.
        mask: The paths to change, or None to replace the document.
        transforms: A path, the name of a transform and its operand each.
        precondition: `exists`, `missing`, `current` or `stale`, or None.
    """

    path: str
    fields: dict[str, Any] | None = None
    mask: tuple[str, ...] | None = None
    transforms: tuple[tuple[str, str, Any], ...] = ()
    precondition: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of several writes."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class BatchGet:
    """A read of several documents, in any order and with duplicates."""

    paths: tuple[str, ...]
    mask: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    Attributes:
        parent: The path of the collection's parent, or empty.
        collection: The collection's id.
        group: Whether all collections of this id below the parent are meant.
        where: A filter: `(path, operator, operand)`, `(path, unary operator)` or
            `("AND" or "OR", filters)`.
        orders: Paths and whether they descend.
        start: Values of the orders, and whether the cursor is before them.
        end: The same for the end.
        nearest: The field, vector, measure, limit, field for the distance, and threshold.
    """

    parent: str
    collection: str
    group: bool = False
    where: Any = None
    orders: tuple[tuple[str, bool], ...] = ()
    start: tuple[tuple[Any, ...], bool] | None = None
    end: tuple[tuple[Any, ...], bool] | None = None
    offset: int = 0
    limit: int | None = None
    select: tuple[str, ...] | None = None
    nearest: tuple[str, Vector, int, int, str, float | None] | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregations of a query's documents: a name and its field, or limit of a count, each."""

    query: Query
    aggregations: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """A listing of a collection's documents."""

    parent: str
    collection: str
    show_missing: bool
    page_size: int
    mask: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ListCollections:
    """A listing of a document's collections, or of the root's."""

    parent: str


Request = Commit | BatchGet | Query | Aggregation | ListDocuments | ListCollections


@dataclass
class Sender:
    """Sends requests to one database, and normalizes the answers.

    Attributes:
        api: Google's client of the RPCs.
        project: The project, whose default database is used.
        moments: The names of the times that the database has answered.
        versions: The update times of each document that was written.
        commits: The number of commits that were sent.
        message: The message of the last error.
    """

    api: FirestoreAsyncClient
    project: str
    moments: dict[datetime, str] = field(default_factory=dict)
    versions: dict[str, list[datetime]] = field(default_factory=dict)
    commits: int = 0
    message: str = ""

    @property
    def _database(self) -> str:
        return f"projects/{self.project}/databases/(default)"

    @property
    def _root(self) -> str:
        return f"{self._database}/documents"

    async def send(self, request: Request) -> Normal:  # noqa: PLR0911 - a case a request
        """Send a request, and return its answer or the name of its error."""
        try:
            match request:
                case Commit():
                    return await self._commit(request)
                case BatchGet():
                    return await self._batch_get(request)
                case Query():
                    return await self._run_query(request)
                case Aggregation():
                    return await self._aggregate(request)
                case ListDocuments():
                    return await self._list_documents(request)
                case ListCollections():
                    proto = ListCollectionIdsRequest(parent=self._parent(request.parent))
                    pager = await self.api.list_collection_ids(proto, retry=None, metadata=_OWNER)
                    return tuple([name async for name in pager])
        except GoogleAPICallError as error:
            code = error.grpc_status_code
            self.message = str(error.message).replace(self.project, "PROJECT")
            return ("error", code.name if code else repr(error))

    async def _commit(self, commit: Commit) -> Normal:
        self.commits += 1
        protos = [self._encode_write(write) for write in commit.writes]
        proto = CommitRequest(database=self._database, writes=protos)
        response = await self.api.commit(proto, retry=None, metadata=_OWNER)
        self.moments[_time(response.commit_time)] = f"commit {self.commits}"
        results = []
        for write, result in zip(commit.writes, response.write_results, strict=True):
            transformed = [
                self._normalize_transform(transform, value)
                for transform, value in zip(write.transforms, result.transform_results, strict=True)
            ]
            if result.update_time and write.fields is not None:
                self.versions.setdefault(write.path, []).append(_time(result.update_time))
            moment = self._moment(result.update_time) if result.update_time else None
            results.append((moment, tuple(transformed)))
        return tuple(results)

    def _normalize_transform(self, transform: tuple[str, str, Any], value: Value) -> Normal:
        if transform[1] == "server_timestamp":
            # A busy emulator may read its clock again for the time of the commit.
            self.moments.setdefault(_time(value.timestamp_value), f"commit {self.commits}")
        return self._normalize(value)

    async def _batch_get(self, request: BatchGet) -> Normal:
        proto = BatchGetDocumentsRequest(
            database=self._database,
            documents=[f"{self._root}/{path}" for path in request.paths],
            mask=_mask(request.mask),
        )
        stream = await self.api.batch_get_documents(proto, retry=None, metadata=_OWNER)
        answers = []
        async for response in stream:
            if response.missing:
                answers.append((self._path(response.missing), "missing"))
            else:
                answers.append(self._normalize_document(response.found))
        return tuple(sorted(answers, key=repr))

    async def _run_query(self, query: Query) -> Normal:
        proto = RunQueryRequest(
            parent=self._parent(query.parent), structured_query=self._encode_query(query)
        )
        stream = await self.api.run_query(proto, retry=None, metadata=_OWNER)
        responses = [response async for response in stream]
        return tuple(
            self._normalize_document(response.document)
            for response in responses
            if response._pb.HasField("document")  # noqa: SLF001
        )

    async def _aggregate(self, request: Aggregation) -> Normal:
        aggregations = []
        for number, (name, operand) in enumerate(request.aggregations):
            proto = StructuredAggregationQuery.Aggregation(alias=f"result{number}")
            match name:
                case "count":
                    proto.count = StructuredAggregationQuery.Aggregation.Count(up_to=operand)
                case "sum":
                    proto.sum = StructuredAggregationQuery.Aggregation.Sum(field=_field(operand))
                case _:
                    proto.avg = StructuredAggregationQuery.Aggregation.Avg(field=_field(operand))
            aggregations.append(proto)
        query = StructuredAggregationQuery(
            structured_query=self._encode_query(request.query), aggregations=aggregations
        )
        proto = RunAggregationQueryRequest(
            parent=self._parent(request.query.parent), structured_aggregation_query=query
        )
        stream = await self.api.run_aggregation_query(proto, retry=None, metadata=_OWNER)
        responses = [response async for response in stream]
        result: AggregationResult = responses[-1].result
        return tuple(
            (name, self._normalize(value))
            for name, value in sorted(result.aggregate_fields.items())
        )

    async def _list_documents(self, request: ListDocuments) -> Normal:
        proto = ListDocumentsRequest(
            parent=self._parent(request.parent),
            collection_id=request.collection,
            show_missing=request.show_missing,
            page_size=request.page_size,
            mask=_mask(request.mask),
        )
        pager = await self.api.list_documents(proto, retry=None, metadata=_OWNER)
        return tuple([self._normalize_document(document) async for document in pager])

    def _parent(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _path(self, name: str) -> str:
        return name.removeprefix(self._root + "/")

    def _encode_write(self, write: Write) -> WriteProto:
        name = f"{self._root}/{write.path}"
        proto = WriteProto()
        if write.fields is None:
            proto.delete = name
        else:
            proto.update = Document(name=name, fields=encode_fields(write.fields, self._root))
            if write.mask is not None:
                proto.update_mask = DocumentMask(field_paths=write.mask)
            proto.update_transforms = [
                self._encode_transform(*transform) for transform in write.transforms
            ]
        versions = self.versions.get(write.path, [])
        never = datetime(2020, 1, 1, tzinfo=UTC)
        match write.precondition:
            case "exists":
                proto.current_document = Precondition(exists=True)
            case "missing":
                proto.current_document = Precondition(exists=False)
            case "current":
                proto.current_document = Precondition(
                    update_time=versions[-1] if versions else never
                )
            case "stale":
                proto.current_document = Precondition(
                    update_time=next(
                        (version for version in versions if version != versions[-1]), never
                    )
                )
        return proto

    def _encode_transform(
        self, path: str, name: str, operand: object
    ) -> DocumentTransform.FieldTransform:
        proto = DocumentTransform.FieldTransform(field_path=path)
        match name:
            case "server_timestamp":
                server_value = DocumentTransform.FieldTransform.ServerValue
                proto.set_to_server_value = server_value(server_value.REQUEST_TIME)
            case "union":
                proto.append_missing_elements = encode(operand, self._root).array_value
            case "remove":
                proto.remove_all_from_array = encode(operand, self._root).array_value
            case _:
                setattr(proto, name, encode(operand, self._root))
        return proto

    def _encode_query(self, query: Query) -> StructuredQuery:
        selector = StructuredQuery.CollectionSelector(
            collection_id=query.collection, all_descendants=query.group
        )
        directions = StructuredQuery.Direction
        proto = StructuredQuery(
            from_=[selector],
            order_by=[
                StructuredQuery.Order(
                    field=_field(path),
                    direction=directions.DESCENDING if descends else directions.ASCENDING,
                )
                for path, descends in query.orders
            ],
            offset=query.offset,
        )
        if query.where is not None:
            proto.where = self._encode_filter(query.where)
        if query.limit is not None:
            proto.limit = query.limit
        if query.select is not None:
            fields = [_field(path) for path in query.select]
            proto.select = StructuredQuery.Projection(fields=fields)
        if query.start is not None:
            proto.start_at = self._encode_cursor(query.start)
        if query.end is not None:
            proto.end_at = self._encode_cursor(query.end)
        if query.nearest is not None:
            path, vector, measure, limit, distance, threshold = query.nearest
            proto.find_nearest = StructuredQuery.FindNearest(
                vector_field=_field(path),
                query_vector=encode(vector, self._root),
                distance_measure=measure,
                limit=limit,
                distance_result_field=distance,
                distance_threshold=threshold,
            )
        return proto

    def _encode_cursor(self, cursor: tuple[tuple[Any, ...], bool]) -> Cursor:
        values, before = cursor
        return Cursor(values=[encode(value, self._root) for value in values], before=before)

    def _encode_filter(self, where: Any) -> StructuredQuery.Filter:
        if where[0] in {"AND", "OR"}:
            filters = [self._encode_filter(part) for part in where[1]]
            operator = getattr(StructuredQuery.CompositeFilter.Operator, where[0])
            composite = StructuredQuery.CompositeFilter(op=operator, filters=filters)
            return StructuredQuery.Filter(composite_filter=composite)
        if len(where) == 2:
            path, operator = where
            unary = StructuredQuery.UnaryFilter(
                field=_field(path), op=getattr(StructuredQuery.UnaryFilter.Operator, operator)
            )
            return StructuredQuery.Filter(unary_filter=unary)
        path, operator, operand = where
        comparison = StructuredQuery.FieldFilter(
            field=_field(path),
            op=getattr(StructuredQuery.FieldFilter.Operator, operator),
            value=encode(operand, self._root),
        )
        return StructuredQuery.Filter(field_filter=comparison)

    def _normalize_document(self, document: Document) -> Normal:
        return (
            self._path(document.name),
            tuple(
                (name, self._normalize(document.fields[name])) for name in sorted(document.fields)
            ),
            self._moment(document.create_time) if document.create_time else None,
            self._moment(document.update_time) if document.update_time else None,
        )

    def _moment(self, moment: Any) -> str:
        return self.moments.get(_time(moment), f"unknown {moment}")

    def _normalize(self, value: Value) -> Normal:  # noqa: PLR0911 - a case a type
        kind = value._pb.WhichOneof("value_type")  # noqa: SLF001
        match kind:
            case "timestamp_value":
                moment = _time(value.timestamp_value)
                return self.moments.get(moment, moment.isoformat())
            case "reference_value":
                return ("reference", self._path(value.reference_value))
            case "array_value":
                return tuple(self._normalize(member) for member in value.array_value.values)
            case "map_value":
                fields = value.map_value.fields
                return (
                    "map",
                    tuple((name, self._normalize(fields[name])) for name in sorted(fields)),
                )
            case "double_value":
                number = float(value.double_value)
                if 0 < abs(number) < _ROUNDING_ERROR:  # a distance of 0, rounded otherwise
                    number = 0.0
                rounded = number if math.isinf(number) or number == 0 else float(f"{number:.12g}")
                return ("double", repr(rounded))
            case "geo_point_value":
                return ("point", value.geo_point_value.latitude, value.geo_point_value.longitude)
            case "null_value" | None:
                return kind
        return (kind, getattr(value, kind))


def _time(moment: Any) -> datetime:
    """Return a time with the microseconds that Firestore keeps."""
    if isinstance(moment, Timestamp):
        return cast("datetime", moment.ToDatetime(UTC))
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def _mask(paths: tuple[str, ...] | None) -> DocumentMask | None:
    return None if paths is None else DocumentMask(field_paths=paths)


def _field(path: str) -> StructuredQuery.FieldReference:
    return StructuredQuery.FieldReference(field_path=path)

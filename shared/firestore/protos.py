"""The protobuf classes behind Google's types, which are quicker than the types."""

from __future__ import annotations

from typing import Any, Final

from google.cloud.firestore_v1 import types

BatchGetDocumentsRequest: Final[Any] = types.BatchGetDocumentsRequest.pb()
CommitRequest: Final[Any] = types.CommitRequest.pb()
DocumentProto: Final[Any] = types.Document.pb()
RunAggregationQueryRequest: Final[Any] = types.RunAggregationQueryRequest.pb()
RunQueryRequest: Final[Any] = types.RunQueryRequest.pb()
StructuredQuery: Final[Any] = types.StructuredQuery.pb()
ValueProto: Final[Any] = types.Value.pb()
WriteProto: Final[Any] = types.Write.pb()

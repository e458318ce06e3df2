"""The protobuf classes behind Google's types, which are quicker than the types."""

from __future__ import annotations

from typing import Any, Final

from google.cloud.firestore_v1 import types

BatchGetDocumentsRequest: Final[Any] = types.BatchGetDocumentsRequest.pb()
BatchGetDocumentsResponse: Final[Any] = types.BatchGetDocumentsResponse.pb()
BeginTransactionRequest: Final[Any] = types.BeginTransactionRequest.pb()
BeginTransactionResponse: Final[Any] = types.BeginTransactionResponse.pb()
CommitRequest: Final[Any] = types.CommitRequest.pb()
CommitResponse: Final[Any] = types.CommitResponse.pb()
DocumentProto: Final[Any] = types.Document.pb()
"""A stored document has fields only: name and times stand beside it."""
ListCollectionIdsRequest: Final[Any] = types.ListCollectionIdsRequest.pb()
ListCollectionIdsResponse: Final[Any] = types.ListCollectionIdsResponse.pb()
ListDocumentsRequest: Final[Any] = types.ListDocumentsRequest.pb()
ListDocumentsResponse: Final[Any] = types.ListDocumentsResponse.pb()
RollbackRequest: Final[Any] = types.RollbackRequest.pb()
RunAggregationQueryRequest: Final[Any] = types.RunAggregationQueryRequest.pb()
RunAggregationQueryResponse: Final[Any] = types.RunAggregationQueryResponse.pb()
RunQueryRequest: Final[Any] = types.RunQueryRequest.pb()
RunQueryResponse: Final[Any] = types.RunQueryResponse.pb()
StructuredQuery: Final[Any] = types.StructuredQuery.pb()
ValueProto: Final[Any] = types.Value.pb()
WriteProto: Final[Any] = types.Write.pb()

"""The vector of a document, stored twice: for the vector index, and compactly for this code.

`embedding` is what `find_nearest` compares. The client library makes an object of each of its
numbers, so reading it is slow. `embedding_f16` has the same numbers as half-precision floats
(IEEE 754 binary16, little endian). Decoding a response and computing one cosine takes, in ms of one
core (int8: with a scale for each vector):

| dimensions | `embedding` | `embedding_f16` | int8 |
|---|---|---|---|
| 384 | 1.09 | 0.036 | 0.036 |
| 768 | 1.92 | 0.069 | 0.083 |
| largest error of 1,500 cosines | 0 | 0.00005 | 0.0013 |

Half floats are as fast as int8 and lose less. Documents of earlier releases have no `embedding_f16`
until they are written again; `load_compact` then reads their `embedding`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database

COMPACT: Final = "embedding_f16"
COMPACT_FIELDS: Final = (COMPACT, "embedding_model")
"""The fields that `load_compact` needs."""
NO_VECTOR: Final = dict.fromkeys(("embedding", *COMPACT_FIELDS), DELETE_FIELD)
"""The part of an update that removes the vector of a document."""
_NUMBER_BYTES: Final = 2
_MAX_READ: Final = 300
"""The most documents that one request reads."""


def vector_fields(vector: Sequence[float], model: str) -> dict[str, Any]:
    """Return the stored fields of a document's vector."""
    return {
        "embedding": FirestoreVector(list(vector)),
        COMPACT: to_compact(vector),
        "embedding_model": model,
    }


def to_compact(vector: Sequence[float]) -> bytes:
    """Encode a vector as half-precision floats."""
    return struct.pack(f"<{len(vector)}e", *vector)


def from_compact(data: bytes) -> Vector:
    """Decode a vector of half-precision floats."""
    return struct.unpack(f"<{len(data) // _NUMBER_BYTES}e", data)


async def load_compact(
    documents: Mapping[str, Mapping[str, Any]],
    collection: str,
    database: Database,
    dimension: int | None = None,
) -> dict[str, bytes]:
    """Return the compact vectors of those documents that are embedded, by document id.

    Costs no round trip, but one for each 300 documents of earlier releases.

    Args:
        documents: The documents by id, with COMPACT_FIELDS.
        collection: Their collection.
        database: The database.
        dimension: The length of vectors to return. Others cannot be compared. None: any length.
    """
    vectors = {name: data[COMPACT] for name, data in documents.items() if COMPACT in data}
    missing = [
        database.document(collection, name)
        for name, data in documents.items()
        if name not in vectors and "embedding_model" in data
    ]
    for start in range(0, len(missing), _MAX_READ):
        block = missing[start : start + _MAX_READ]
        for snapshot in await database.get_all(block, ["embedding"]):
            if embedding := (snapshot.to_dict() or {}).get("embedding"):
                vectors[snapshot.id] = to_compact(embedding)
    if dimension is None:
        return vectors
    size = _NUMBER_BYTES * dimension
    return {name: vector for name, vector in vectors.items() if len(vector) == size}

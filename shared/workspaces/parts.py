"""The parts of a document, which store its passages with their terms and vectors.

A part is one Firestore document. A search reads all parts of a document, and compares the vectors
in the function: that costs far fewer reads than one for each passage.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import pack
from shared.index.stored_vector import NUMBER_BYTES
from shared.workspaces.model import WorkspacePassage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.workspaces.model import IndexProfile

MAX_PASSAGES_PER_PART: Final = 64
"""The vectors of a part are stored together. If the embedding stops, those of one part are lost."""
MAX_PART_BYTES: Final = 900_000
"""A part is at most this large even if its text cannot be compressed, so that it fits into a
Firestore document of 1 MiB. A single passage is far smaller."""
_MAX_PASSAGE_BYTES: Final = 100
"""A passage occupies at most this many bytes in addition to its text, its terms and its vector."""
_MAX_COUNT_BYTES: Final = 14
"""A term occupies at most this many bytes in addition to its letters."""


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """Some passages of a document, in the order in which they first occur.

    Attributes:
        vectors: The compact vectors of the passages, or none if they are not embedded yet.
    """

    passages: Sequence[WorkspacePassage]
    vectors: Sequence[bytes] = ()


def build_parts(passages: Sequence[WorkspacePassage], profile: IndexProfile) -> list[DocumentPart]:
    """Divide the passages of a document into parts that fit into Firestore documents."""
    vector_bytes = NUMBER_BYTES * profile.dimension

    def measure(passage: WorkspacePassage) -> int:
        text_bytes = len(json.dumps(passage.text, ensure_ascii=False).encode())
        term_bytes = sum(len(term.encode()) + _MAX_COUNT_BYTES for term in passage.counts)
        return _MAX_PASSAGE_BYTES + text_bytes + term_bytes + vector_bytes

    blocks = pack(passages, MAX_PASSAGES_PER_PART, MAX_PART_BYTES, measure)
    return [DocumentPart(block) for block in blocks]


def encode_part(part: DocumentPart) -> dict[str, Any]:
    """Return the stored fields of a part without vectors."""
    rows = [
        (
            passage.position,
            passage.start,
            passage.end,
            passage.text,
            passage.counts,
            passage.length,
        )
        for passage in part.passages
    ]
    data = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    return {"ids": [passage.id for passage in part.passages], "data": zlib.compress(data)}


def encode_vectors(vectors: Iterable[bytes], profile: IndexProfile) -> dict[str, Any]:
    """Return the stored fields of a part's vectors."""
    return {"vectors": b"".join(vectors), "embedding_model": profile.model}


def decode_part(fields: Mapping[str, Any], profile: IndexProfile) -> DocumentPart:
    """Read a part from its stored fields."""
    rows = json.loads(zlib.decompress(fields["data"]))
    passages = [
        WorkspacePassage(passage_id, *row)
        for passage_id, row in zip(fields["ids"], rows, strict=True)
    ]
    return DocumentPart(passages, decode_vectors(fields, profile))


def decode_vectors(fields: Mapping[str, Any], profile: IndexProfile) -> Sequence[bytes]:
    """Read a part's vectors. Those of another model or dimension count as missing."""
    data, count = fields.get("vectors", b""), len(fields["ids"])
    size = NUMBER_BYTES * profile.dimension
    if fields.get("embedding_model") != profile.model or len(data) != size * count:
        return ()
    return [data[start : start + size] for start in range(0, len(data), size)]

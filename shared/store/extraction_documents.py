"""How an extraction is laid out as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.domain.extraction import (
    CONTENTS,
    LONGEST_QUOTE,
    SCHEMA_VERSION,
    Content,
    Extraction,
    ExtractionType,
)

if TYPE_CHECKING:
    from shared.ai.embedding import Vector

READ_FIELDS: Final = (
    "type",
    "content",
    "topics",
    "quote",
    "source_id",
    "chunk_id",
    "confidence",
    "model",
    "extracted_at",
    "duplicate_of",
)
"""All of an extraction but its vector and its facets."""


def to_extraction(extraction_id: str, data: dict[str, Any]) -> Extraction:
    """Read an extraction from its document."""
    return Extraction(
        extraction_id=extraction_id,
        content=to_content(data),
        topics=tuple(data["topics"]),
        quote=data["quote"],
        source_id=data["source_id"],
        chunk_id=data["chunk_id"],
        confidence=data["confidence"],
        model=data["model"],
        extracted_at=data["extracted_at"],
        duplicate_of=data.get("duplicate_of"),
    )


def to_content(data: dict[str, Any]) -> Content:
    """Read what an extraction says from its `type` and its `content`."""
    return CONTENTS[ExtractionType(data["type"])].model_validate(data["content"])


def document(extraction: Extraction, vector: Vector, embedding_model: str) -> dict[str, Any]:
    """An extraction with its vector. A confidence is told in thousandths: lists go by it."""
    return {
        "type": extraction.type.value,
        "content": extraction.content.model_dump(mode="json", exclude_none=True),
        "topics": list(extraction.topics),
        "facets": extraction.facets,
        "quote": extraction.quote[:LONGEST_QUOTE],
        "embedding": FirestoreVector(list(vector)),
        "embedding_model": embedding_model,
        "source_id": extraction.source_id,
        "chunk_id": extraction.chunk_id,
        "confidence": round(float(extraction.confidence), 3),
        "model": extraction.model,
        "schema_version": SCHEMA_VERSION,
        "extracted_at": extraction.extracted_at,
        "duplicate_of": extraction.duplicate_of,
    }

"""Builds the writes that keep chunks, extractions and topic counts consistent.

An extraction is a decision, pattern, warning or methodology found in a chunk, which is a passage of
a source. The field `extracted` of the chunk contains a summary of each extraction by its id. One
commit updates this field, the extractions and the counts in `topics/{topic}`. So the counts are
exact, and deleting a chunk leaves no orphans.

Deleting an extraction creates a deletion marker, `gone_extractions/{id}`, because other extractions
may be hidden as its duplicates. `shared.extractions.upkeep` promotes one of them and deletes the
marker.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from shared.core.ids import safe_id
from shared.extractions.model import SCHEMA_VERSION
from shared.firestore.documents import Reference
from shared.firestore.values import Increment
from shared.firestore.writes import Delete, Set, Together, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.extractions.model import Extraction
    from shared.knowledge.queue import ExtractionSummaries

COLLECTION: Final = "extractions"
DELETION_MARKERS: Final = "gone_extractions"
TOPICS: Final = "topics"


def summarize_extractions(extractions: Sequence[Extraction]) -> dict[str, dict[str, Any]]:
    """Return the field `extracted` of a chunk with these extractions."""
    return {extraction.extraction_id: _summarize(extraction) for extraction in extractions}


def build_removal_writes(extracted: ExtractionSummaries) -> list[Write]:
    """Build the writes that delete extractions and subtract them from the topic counts."""
    return [
        *build_deletion_writes(extracted),
        *build_topic_count_writes(extracted, {}),
    ]


def build_deletion_writes(extracted: ExtractionSummaries) -> Iterator[Write]:
    """Build the writes that delete extractions and leave a deletion marker for each."""
    for extraction_id in extracted:
        marker = Reference(DELETION_MARKERS, extraction_id)
        yield Together([Delete(Reference(COLLECTION, extraction_id)), Set(marker, {})])


def build_marker_writes(extraction_ids: Iterable[str]) -> Iterator[Write]:
    """Build the writes that create deletion markers.

    If the extraction of a marker exists, processing the marker changes nothing.
    """
    for extraction_id in extraction_ids:
        yield Set(Reference(DELETION_MARKERS, extraction_id), {})


def build_topic_count_writes(
    before: ExtractionSummaries, after: ExtractionSummaries
) -> Iterator[Write]:
    """Build the writes that update the topic counts after a chunk's extractions changed.

    Args:
        before: The summaries of the chunk's previous extractions, by extraction id.
        after: The summaries of its new extractions, by extraction id.
    """
    changes = Counter(_iterate_topics_and_types(after))
    changes.subtract(_iterate_topics_and_types(before))
    for topic in sorted({topic for topic, _ in changes}):
        by_type = {
            extraction_type: change
            for (name, extraction_type), change in changes.items()
            if name == topic and change
        }
        if by_type:
            yield _build_topic_write(topic, by_type)


def _summarize(extraction: Extraction) -> dict[str, Any]:
    """Return the summary of an extraction. It has no topics for a duplicate, which is not counted.

    The field `says` is a digest, by which a later run sees whether the extraction changed.
    """
    summary = {
        "type": extraction.type.value,
        "topics": list(extraction.topics),
        "says": _compute_digest(extraction),
    }
    return summary | {"topics": [], "duplicate": True} if extraction.duplicate_of else summary


def _compute_digest(extraction: Extraction) -> str:
    """Hash the fields that may change while the id stays the same, except the model and the time.

    The id follows from the chunk, the type and the content.
    """
    fields = [SCHEMA_VERSION, extraction.topics, extraction.quote, extraction.confidence]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


def _build_topic_write(topic: str, by_type: Mapping[str, int]) -> Write:
    reference = Reference(TOPICS, safe_id(topic))
    counts = {extraction_type: Increment(change) for extraction_type, change in by_type.items()}
    fields = {"name": topic, "counts": counts, "total": Increment(sum(by_type.values()))}
    return Set(reference, fields, merge=True)


def _iterate_topics_and_types(extracted: ExtractionSummaries) -> Iterator[tuple[str, str]]:
    """Yield each topic of each extraction, with the type of the extraction."""
    for summary in extracted.values():
        for topic in summary["topics"]:
            yield topic, summary["type"]

"""The field `extracted` of a chunk, which lists its extractions and their topics.

Every write of a chunk's extractions changes this map, the extractions and the counts in
`topics/{topic}` in one commit. So the counts are exact, and deleting a chunk leaves no orphans.

The deletion of an extraction creates a marker in `gone_extractions/{id}`, because other extractions
may be hidden as its duplicates. The purge job promotes one of them and deletes the marker.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import Increment

from shared.core.ids import safe_id
from shared.extractions.model import SCHEMA_VERSION
from shared.firestore.writes import combine_writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.extractions.model import Extraction
    from shared.firestore.database import Database, Write
    from shared.knowledge.queue import ExtractionSummaries

COLLECTION: Final = "extractions"
DELETION_MARKERS: Final = "gone_extractions"
TOPICS: Final = "topics"


def extracted_map(extractions: Sequence[Extraction]) -> dict[str, dict[str, Any]]:
    """Return the field `extracted` of a chunk with these extractions."""
    return {extraction.extraction_id: _to_entry(extraction) for extraction in extractions}


def removal_writes(database: Database, extracted: ExtractionSummaries) -> list[Write]:
    """Build the writes that delete extractions and subtract them from their topics' counts."""
    return [*deletion_writes(database, extracted), *topic_count_writes(database, extracted, {})]


def deletion_writes(database: Database, extracted: ExtractionSummaries) -> Iterator[Write]:
    """Build the writes that delete extractions and leave a marker for each."""
    for extraction_id in extracted:
        yield combine_writes(
            [_build_deletion(database, extraction_id), _build_marker(database, extraction_id)]
        )


def marker_writes(database: Database, extraction_ids: Iterable[str]) -> Iterator[Write]:
    """Build the writes that mark extractions as deleted, unless they exist."""
    for extraction_id in extraction_ids:
        yield _build_marker(database, extraction_id)


def topic_count_writes(
    database: Database, before: ExtractionSummaries, after: ExtractionSummaries
) -> Iterator[Write]:
    """Build the writes that update the counts of topics after a change of a chunk's extractions."""
    changes = Counter(_iterate_topics_and_types(after))
    changes.subtract(_iterate_topics_and_types(before))
    for topic in sorted({topic for topic, _ in changes}):
        by_type = {kind: n for (name, kind), n in changes.items() if name == topic and n}
        if by_type:
            yield _build_topic_write(database, topic, by_type)


def _to_entry(extraction: Extraction) -> dict[str, Any]:
    entry = {
        "type": extraction.type.value,
        "topics": list(extraction.topics),
        "says": _compute_digest(extraction),
    }
    return entry | {"topics": [], "duplicate": True} if extraction.duplicate_of else entry


def _compute_digest(extraction: Extraction) -> str:
    """Return a hash of the stored fields of an extraction, except its model and its time."""
    fields = [SCHEMA_VERSION, extraction.topics, extraction.quote, extraction.confidence]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]


def _build_deletion(database: Database, extraction_id: str) -> Write:
    reference = database.document(COLLECTION, extraction_id)
    return lambda batch: batch.delete(reference)


def _build_marker(database: Database, extraction_id: str) -> Write:
    reference = database.document(DELETION_MARKERS, extraction_id)
    return lambda batch: batch.set(reference, {})


def _build_topic_write(database: Database, topic: str, by_type: Mapping[str, int]) -> Write:
    reference = database.document(TOPICS, safe_id(topic))
    counts = {kind: Increment(n) for kind, n in by_type.items()}
    data = {"name": topic, "counts": counts, "total": Increment(sum(by_type.values()))}
    return lambda batch: batch.set(reference, data, merge=True)


def _iterate_topics_and_types(extracted: ExtractionSummaries) -> Iterator[tuple[str, str]]:
    """Yield each topic of each extraction, with the type of the extraction."""
    for entry in extracted.values():
        for topic in entry["topics"]:
            yield topic, entry["type"]

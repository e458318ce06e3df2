"""`extracted` of a chunk: the extractions that hang on it, and how topics count them.

Whoever writes or deletes extractions of a chunk changes this map, the extractions and the counts in
`topics/{topic}` in one commit: so the counts are exact, and nothing is left of a chunk that goes.

An extraction that goes leaves a mark in `gone_extractions/{id}`: others may not be shown because it
said the same. The purge job shows one of them in its place, and takes the mark away.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import Increment

from shared.core.ids import safe_id
from shared.extractions.model import SCHEMA_VERSION
from shared.firestore.database import combine_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.extractions.model import Extraction
    from shared.firestore.database import Database, Write
    from shared.knowledge.queue import ExtractionSummaries

COLLECTION: Final = "extractions"
GONE: Final = "gone_extractions"
TOPICS: Final = "topics"


def extracted(extractions: Sequence[Extraction]) -> dict[str, dict[str, Any]]:
    """What a chunk is to know of its extractions."""
    return {each.extraction_id: _known(each) for each in extractions}


def removal(database: Database, known: ExtractionSummaries) -> list[Write]:
    """What deletes extractions, and takes them out of their topics' counts."""
    return [*deletions(database, known), *topic_writes(database, known, {})]


def deletions(database: Database, known: ExtractionSummaries) -> Iterator[Write]:
    """What deletes extractions, and marks them as gone."""
    for name in known:
        yield combine_writes([_deletion(database, name), _mark(database, name)])


def topic_writes(
    database: Database, before: ExtractionSummaries, after: ExtractionSummaries
) -> Iterator[Write]:
    """What brings the counts of topics from one state of a chunk to another."""
    change = Counter(_counted(after))
    change.subtract(_counted(before))
    for topic in sorted({topic for topic, _ in change}):
        by_type = {kind: n for (name, kind), n in change.items() if name == topic and n}
        if by_type:
            yield _topic_write(database, topic, by_type)


def _known(each: Extraction) -> dict[str, Any]:
    known = {"type": each.type.value, "topics": list(each.topics), "says": _digest(each)}
    return known | {"topics": [], "duplicate": True} if each.duplicate_of else known


def _digest(each: Extraction) -> str:
    """Changes when anything changes that is stored of it, but for who found it, and when."""
    said = [SCHEMA_VERSION, each.topics, each.quote, each.confidence]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _deletion(database: Database, extraction_id: str) -> Write:
    reference = database.document(COLLECTION, extraction_id)
    return lambda batch: batch.delete(reference)


def _mark(database: Database, extraction_id: str) -> Write:
    reference = database.document(GONE, extraction_id)
    return lambda batch: batch.set(reference, {})


def _topic_write(database: Database, topic: str, by_type: Mapping[str, int]) -> Write:
    reference = database.document(TOPICS, safe_id(topic))
    counts = {kind: Increment(n) for kind, n in by_type.items()}
    data = {"name": topic, "counts": counts, "total": Increment(sum(by_type.values()))}
    return lambda batch: batch.set(reference, data, merge=True)


def _counted(known: ExtractionSummaries) -> Iterator[tuple[str, str]]:
    """Each topic of each extraction, with the extraction's type."""
    for each in known.values():
        for topic in each["topics"]:
            yield topic, each["type"]

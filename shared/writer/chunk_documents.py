"""Builds the documents of new chunks, and the updates of stored ones.

Only this package does that. The steps of jobs add to a stored chunk what they compute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.values import DELETE_FIELD
from shared.index.on_request import is_on_request
from shared.index.stored_vector import NO_VECTOR
from shared.knowledge.chunk_repository import (
    CODEC,
    LAYOUT,
    READ_FIELDS,
    STEPS,
    UNDATED,
    build_step_done,
    build_step_pending,
)
from shared.knowledge.source import DateMeaning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.knowledge.chunk import Chunk

FIRST_STEPS: Final = ("embed", "index", "card", "extract")
"""The steps that are pending on a new chunk. Clustering follows when the chunk has a vector."""
BY_JOBS: Final = frozenset({"dated_at", "date_meaning", "knowledge_card", "cluster_id"})
"""The dates, which stay, and the fields that steps of jobs write. All others are compared here."""


def build_owned_fields(chunk: Chunk) -> dict[str, Any]:
    """Return the stored fields that no step of a job writes."""
    owned = CODEC.write(chunk, CODEC.names.keys() - BY_JOBS)
    return owned | {"content_hash": chunk.content_hash}


def compute_fingerprint(chunk: Chunk) -> str:
    """Hash the layout and the fields that no step of a job writes, except the revision."""
    return hashlib.sha256(_canonicalize(chunk)).hexdigest()


def estimate_write_size(chunk: Chunk) -> int:
    """Estimate the size of a write of this chunk in bytes, with 1,000 for the names of fields."""
    return 1_000 + len(_canonicalize(chunk))


def build_new_document(
    chunk: Chunk, now: datetime, steps: Sequence[str] = FIRST_STEPS
) -> dict[str, Any]:
    """Build the document of a new chunk.

    A chunk from an export already has its knowledge card, so no job makes one. A chunk found only
    on request is indexed by its words alone.
    """
    card = CODEC.write(chunk, ["knowledge_card"]) if chunk.knowledge_card else {}
    if is_on_request(chunk.category, chunk.tags):
        steps = ("index",)
    steps = [step for step in steps if step != "card" or not card]
    return (
        _build_written_fields(chunk, now)
        | card
        | _build_date(chunk)
        | {
            "created_at": now,
            "pending": dict.fromkeys(steps, now),
            "tries": {},
            "parked": {},
        }
    )


def build_update(chunk: Chunk, stored: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Build the update of a stored chunk. It is indexed again.

    The text is the same, because another text would be another chunk. Its card and its extractions
    therefore stay. If the title changed, the chunk is embedded again, and keeps its vector until
    then.
    """
    removed = dict.fromkeys(CODEC.list_absent_names(chunk), DELETE_FIELD)
    steps = ["index"]
    if is_on_request(chunk.category, chunk.tags):
        # Neither its vector nor its clusters, nor the steps that would bring them back.
        removed |= dict.fromkeys((*NO_VECTOR, "cluster_id"), DELETE_FIELD)
        others = [step for step in STEPS if step != "index"]
        removed |= dict(field for step in others for field in build_step_done(step).items())
    elif is_on_request(stored.get("category", ""), stored.get("tags", ())):
        steps = [*FIRST_STEPS]
    elif stored["content_hash"] != chunk.content_hash:  # another title
        steps.append("embed")
    return (
        _build_written_fields(chunk, now)
        | removed
        | _build_date(chunk, stored["dated_at"])
        | dict(field for step in steps for field in build_step_pending(step, now).items())
    )


def build_deletion_update(now: datetime) -> dict[str, Any]:
    """Build the update that marks a chunk as deleted, and deletes its fields.

    Only its indexed state and its extractions stay, by which the index job removes it from the
    postings and deletes the extractions before it deletes the document.
    """
    fields = [*READ_FIELDS, *NO_VECTOR, "facets"]
    fields += ["content_hash", "fingerprint", "created_at", "updated_at"]
    bookkeeping = {"pending": {"index": now}, "tries": {}, "parked": {}, "deleted_at": now}
    return dict.fromkeys(fields, DELETE_FIELD) | bookkeeping


def _build_date(chunk: Chunk, stored_date: datetime = UNDATED) -> dict[str, Any]:
    """Build the date of a chunk. One that is stored stays, unless its highlight has another."""
    if chunk.highlighted_at:
        is_written = chunk.date_meaning is DateMeaning.WRITTEN
        meaning = DateMeaning.WRITTEN if is_written else DateMeaning.HIGHLIGHTED
        return {"dated_at": chunk.highlighted_at, "date_meaning": meaning.value}
    if stored_date != UNDATED:
        return {}
    return {"dated_at": chunk.dated_at or UNDATED, **CODEC.write(chunk, ["date_meaning"])}


def _build_written_fields(chunk: Chunk, now: datetime) -> dict[str, Any]:
    return build_owned_fields(chunk) | {
        "fingerprint": compute_fingerprint(chunk),
        "updated_at": now,
    }


def _canonicalize(chunk: Chunk) -> bytes:
    document = build_owned_fields(replace(chunk, revision=None)) | {"layout": LAYOUT}
    return json.dumps(document, sort_keys=True, default=str, ensure_ascii=False).encode()

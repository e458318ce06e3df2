"""How a trace is laid out as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.domain.trace import Trace, Writing
from shared.domain.trust import Tally
from shared.firestore.writes import known
from shared.index.facets import own_facet
from shared.index.indexed_state import NOTHING

if TYPE_CHECKING:
    from shared.ai.embedding import Vector
    from shared.index.indexed_state import Indexed

COLLECTION: Final = "traces"

READ_FIELDS: Final = (
    "title",
    "context_text",
    "solution_text",
    "tags",
    "contributor",
    "revision",
    "text_revision",
    "tally",
    "created_at",
    "updated_at",
    "supersedes",
    "superseded_by",
    "withdrawn_at",
)
"""All of a trace but its vector and what the index knows of it."""


def to_listed(trace_id: str, data: dict[str, Any]) -> Trace | None:
    """Read a trace from its document, unless it was taken out of the lists meanwhile."""
    trace = to_trace(trace_id, data)
    return trace if trace.is_listed else None


def to_trace(trace_id: str, data: dict[str, Any]) -> Trace:
    """Read a trace from its document."""
    return Trace(
        trace_id=trace_id,
        writing=to_writing(data),
        contributor=data["contributor"],
        revision=data["revision"],
        text_revision=data["text_revision"],
        tally=Tally(**known(Tally, data["tally"])),
        created_at=data["created_at"],
        updated_at=data["updated_at"],
        supersedes=data.get("supersedes"),
        superseded_by=data.get("superseded_by"),
        withdrawn_at=data.get("withdrawn_at"),
    )


def to_writing(data: dict[str, Any]) -> Writing:
    """Read what a contributor wrote."""
    return Writing(
        title=data["title"],
        context_text=data["context_text"],
        solution_text=data["solution_text"],
        tags=tuple(data["tags"]),
    )


def of_writing(writing: Writing) -> dict[str, Any]:
    """What a contributor wrote, as fields."""
    return asdict(writing) | {"tags": list(writing.tags)}


def of_trace(trace: Trace) -> dict[str, Any]:
    """All fields that a reader sees."""
    return of_writing(trace.writing) | {
        "contributor": trace.contributor,
        "revision": trace.revision,
        "text_revision": trace.text_revision,
        "tally": asdict(trace.tally),
        "created_at": trace.created_at,
        "updated_at": trace.updated_at,
        "supersedes": trace.supersedes,
        "superseded_by": trace.superseded_by,
        "withdrawn_at": trace.withdrawn_at,
    }


def indexed_fields(trace: Trace, vector: Vector, model: str, mark: Indexed) -> dict[str, Any]:
    """The fields by which search finds it."""
    return {
        "embedding": FirestoreVector(list(vector)),
        "embedding_model": model,
        "facets": [own_facet(trace.trace_id), *mark.facets],
        "dated_at": trace.dated_at,
        "indexed": mark.document(),
    }


def unindexed_fields() -> dict[str, Any]:
    """Part of an update, after which search does not find it any more."""
    gone = dict.fromkeys(("embedding", "embedding_model", "dated_at"), DELETE_FIELD)
    return gone | {"facets": [], "indexed": NOTHING.document()}

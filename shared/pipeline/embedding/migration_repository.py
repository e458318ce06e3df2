"""Moving the base to another embedding model: page by page through all that holds vectors.

First every walk lets go of the vectors of the old space: passages wait for the step `embed` again,
materials for their job, all others lose theirs. Then those others are walked through once more, and
embedded. Done again, a page changes nothing; how far a walk has come stands in `meta/embedding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.extractions import extracted_chunks
from shared.extractions import repository as extraction_repository
from shared.firestore.writes import put_if_unchanged
from shared.knowledge import chunk_repository
from shared.knowledge.queue import MAX_WRITES
from shared.traces import repository as trace_repository
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.index.embedding_space import SpaceMove

Fields = Mapping[str, Any]

PAGE: Final = MAX_WRITES
WRITERS: Final = ("cluster", "extract", "ingest_materials")
"""Leases of other jobs that read or store vectors. None of them begins while the base moves."""
_NO_VECTOR: Final = {"embedding": DELETE_FIELD, "embedding_model": DELETE_FIELD}


@dataclass(frozen=True, slots=True)
class EmbeddedCorpus:
    """Documents that hold vectors, or say with which model those below them were made.

    Attributes:
        name: Names the walks through them.
        query: All of them, by name.
        fields: What is read of each.
        cleared: The change that lets go of an old vector; None where there is nothing to change.
        text: What is embedded of one by walking; None where another job embeds them.
    """

    name: str
    query: Callable[[AsyncClient], AsyncQuery]
    fields: tuple[str, ...]
    cleared: Callable[[Fields, SpaceMove, datetime], dict[str, Any] | None]
    text: Callable[[str, Fields], str | None] | None = None


@dataclass(frozen=True, slots=True)
class UnembeddedDocument:
    """A document without a vector, as it was read, and what is embedded of it."""

    seen: DocumentSnapshot[Any]
    text: str


class ReembeddingStore:
    """Lets go of vectors, and stores those that take their place."""

    def __init__(self, database: Database) -> None:
        """Work in this database."""
        self._database = database

    async def busy(self, now: datetime) -> list[str]:
        """The jobs that began before the base moved and may still store vectors. One round trip."""
        references = [self._database.document("leases", name) for name in WRITERS]
        found = await self._database.get_all(references, ["expires_at"])
        return [each.id for each in found if each.get("expires_at") > now]

    async def clear(
        self, corpus: EmbeddedCorpus, after: str, move: SpaceMove, now: datetime
    ) -> str | None:
        """Let go of the old vectors of a page; return the place that was reached, None at the end.

        What somebody changes meanwhile is looked at again.
        """
        while True:
            page = await self._page(corpus, after)
            changes = [(each, corpus.cleared(_fields(each), move, now)) for each in page]
            writes = [put_if_unchanged(each, change) for each, change in changes if change]
            if await self._database.commit_skipping_conflicts(writes) == len(writes):
                return _place(page)

    async def unembedded(
        self, corpus: EmbeddedCorpus, after: str
    ) -> tuple[list[UnembeddedDocument], str | None]:
        """Those of a page that should have a vector and have none; and the place it reaches."""
        page = await self._page(corpus, after)
        bare = [each for each in page if "embedding_model" not in _fields(each)]
        texts = [(each, corpus.text(each.id, _fields(each))) for each in bare if corpus.text]
        return [UnembeddedDocument(each, text) for each, text in texts if text], _place(page)

    async def embedded(self, made: Sequence[tuple[UnembeddedDocument, Vector]], model: str) -> int:
        """Store vectors, but not where something changed since it was read; return how many."""
        writes = [
            put_if_unchanged(
                each.seen,
                {"embedding": FirestoreVector(list(vector)), "embedding_model": model},
            )
            for each, vector in made
        ]
        return await self._database.commit_skipping_conflicts(writes)

    async def count(self) -> int:
        """How many documents there are to embed, as far as that is not left to other jobs."""
        client = self._database.client
        counted = [each for each in CORPORA if each.name != "materials"]
        return sum([await self._database.count(each.query(client)) for each in counted])

    async def _page(self, corpus: EmbeddedCorpus, after: str) -> list[DocumentSnapshot[Any]]:
        return await self._database.find(page_query(self._database.client, corpus, after))


def page_query(client: AsyncClient, corpus: EmbeddedCorpus, after: str) -> AsyncQuery:
    """The documents of a corpus that come after a path."""
    query = corpus.query(client).select(corpus.fields).limit(PAGE)
    return query.start_after({"__name__": client.document(after)}) if after else query


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for corpus in CORPORA:
        for after in ("", corpus.name + "/a"):
            yield page_query(client, corpus, after)
        yield corpus.query(client)


def _passage(data: Fields, _move: SpaceMove, now: datetime) -> dict[str, Any] | None:
    waits = "embedding_model" not in data and "embed" in data.get("pending", {})
    if "deleted_at" in data or waits:
        return None
    again = chunk_repository.step_pending("embed", now)
    return _NO_VECTOR | chunk_repository.step_done("cluster") | again


def _vector_only(data: Fields, _move: SpaceMove, _now: datetime) -> dict[str, Any] | None:
    return _NO_VECTOR if "embedding_model" in data else None


def _materials(data: Fields, move: SpaceMove, now: datetime) -> dict[str, Any] | None:
    """Materials that were taken in completely wait for their vectors; others are brought again."""
    model, dimension = move.to
    making = data.get("making", {})
    complete = data.get("status") in {DocumentStatus.READY, DocumentStatus.WAITING}
    if not complete or (making.get("model"), making.get("dimension")) == move.to:
        return None
    made = {"making": {**making, "model": model, "dimension": dimension}}
    waits = {"status": DocumentStatus.WAITING.value, "next_at": now, "tries": 0}
    return made | waits | {"reason": None, "worked_until": None}


def _trace_text(trace_id: str, data: Fields) -> str | None:
    trace = trace_repository.to_trace(trace_id, dict(data))
    return trace.content.embedding_text if trace.is_listed else None


def _extraction_text(_name: str, data: Fields) -> str | None:
    return extraction_repository.to_content(dict(data)).text


CORPORA: Final = (
    EmbeddedCorpus(
        name="chunks",
        query=lambda client: client.collection(chunk_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "pending", "deleted_at"),
        cleared=_passage,
    ),
    EmbeddedCorpus(
        name="materials",
        query=lambda client: client.collection_group(DOCUMENTS).order_by("__name__"),
        fields=("making", "status"),
        cleared=_materials,
    ),
    EmbeddedCorpus(
        name="traces",
        query=lambda client: client.collection(trace_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", *trace_repository.READ_FIELDS),
        cleared=_vector_only,
        text=_trace_text,
    ),
    EmbeddedCorpus(
        name="extractions",
        query=lambda client: client.collection(extracted_chunks.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "type", "content"),
        cleared=_vector_only,
        text=_extraction_text,
    ),
)


def _place(page: Sequence[DocumentSnapshot[Any]]) -> str | None:
    return page[-1].reference.path if len(page) == PAGE else None


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}

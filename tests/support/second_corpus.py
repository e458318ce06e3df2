"""A second corpus for tests: short texts, indexed when they are written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD

from shared.ai.embedding import Purpose
from shared.firestore.writes import put_if_unchanged
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import Facet, Kind, month_facet, named_facet, vector_index_entries
from shared.index.indexed_state import NOT_INDEXED, IndexedState, indexed_state, read_indexed_state
from shared.index.posting_changes import IndexDifference, postings_writes
from shared.index.postings import IndexCollections, InvertedIndex
from shared.index.stored_vector import NO_VECTOR, vector_fields
from shared.index.vector_index import Documents
from shared.search.corpus import DatedCorpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.runtime.context import Context

NAMES: Final = IndexCollections("jotting_lexicon", "jotting_facets", ("meta", "jotting_lexicon"))
COLLECTION: Final = "jottings"
NOON: Final = datetime(2024, 6, 12, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Jotting:
    """A short text."""

    id: str
    text: str
    tags: tuple[str, ...] = ()
    dated_at: datetime = NOON

    @property
    def indexed_text(self) -> str:
        """Its text."""
        return self.text

    @property
    def facets(self) -> Mapping[Facet, str]:
        """Its tags and its month."""
        tags = {named_facet(Kind.TAG, tag): tag for tag in self.tags}
        return tags | {month_facet(self.dated_at): f"{self.dated_at:%B %Y}"}


def jottings(texts: Sequence[str], *tags: str) -> list[Jotting]:
    """Return a jotting for each text, a day apart, the last one the newest."""
    return [
        Jotting(f"j{number:02}", text, tags, NOON + timedelta(days=number))
        for number, text in enumerate(texts)
    ]


def corpus(ctx: Context, read: type[Jotting] = Jotting) -> DatedCorpus[Jotting]:
    """Return the corpus of all jottings, each of the type `read`."""
    database = ctx.database
    documents = Documents(
        database, COLLECTION, ("text", "tags", "dated_at"), partial(_present, read)
    )
    return DatedCorpus(documents, InvertedIndex(database, NAMES))


async def jot(ctx: Context, *written: Jotting) -> None:
    """Write jottings, replacing those of the same ids."""
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    for document in written:
        [vector] = await ctx.embedder.embed([document.text], Purpose.DOCUMENT)
        expected = indexed_state(document)
        fields = {"text": document.text, "tags": list(document.tags), "dated_at": document.dated_at}
        fields |= vector_fields(vector, ctx.embedder.model)
        fields["facets"] = vector_index_entries(expected.facets)
        await _save(ctx, document.id, fields, expected)


async def forget(ctx: Context, jotting_id: str) -> None:
    """Delete a jotting and its postings."""
    gone = dict.fromkeys(("text", "dated_at"), DELETE_FIELD) | NO_VECTOR
    await _save(ctx, jotting_id, gone | {"facets": []}, NOT_INDEXED)


async def _save(
    ctx: Context, jotting_id: str, fields: dict[str, Any], indexed: IndexedState
) -> None:
    """Write a jotting and its postings in one commit; retry on conflict."""
    database = ctx.database

    async def attempt() -> None:
        snapshot = await database.get(database.document(COLLECTION, jotting_id))
        difference = IndexDifference(
            jotting_id, read_indexed_state(snapshot.to_dict() or {}), indexed
        )
        document = put_if_unchanged(snapshot, fields | {"indexed": indexed.document()})
        await database.commit([document, *postings_writes(database, NAMES, [difference])])

    await database.retry_on_conflict(attempt)


def _present(read: type[Jotting], jotting_id: str, data: dict[str, Any]) -> Jotting | None:
    if "text" not in data:
        return None
    return read(jotting_id, data["text"], tuple(data["tags"]), data["dated_at"])

"""A second corpus in addition to the knowledge base, to test that search runs over any corpus.

Its documents are short texts, called jottings, which are indexed when they are saved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from google.cloud.firestore import DELETE_FIELD

from shared.ai.embedding import Purpose
from shared.firestore.documents import Reference
from shared.firestore.writes import put_if_unchanged
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import (
    Facet,
    Kind,
    make_month_facet,
    make_named_facet,
    select_vector_index_facets,
)
from shared.index.indexed_state import (
    NOT_INDEXED,
    IndexedState,
    compute_indexed_state,
    read_indexed_state,
)
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import IndexCollections, InvertedIndex
from shared.index.stored_vector import NO_VECTOR, build_vector_fields
from shared.index.vector_index import Documents
from shared.runtime.context import Context
from shared.search.corpus import DatedCorpus

INDEX_COLLECTIONS: Final = IndexCollections(
    "jotting_lexicon", "jotting_facets", ("meta", "jotting_lexicon")
)
"""The collections of the postings and of the totals."""
COLLECTION: Final = "jottings"
"""The collection of the documents."""
NOON: Final = datetime(2024, 6, 12, 12, tzinfo=UTC)
"""The default date of jottings."""


@dataclass(frozen=True, slots=True)
class Jotting:
    """A short text."""

    id: str
    text: str
    tags: tuple[str, ...] = ()
    dated_at: datetime = NOON

    @property
    def indexed_text(self) -> str:
        """The text to index."""
        return self.text

    @property
    def title(self) -> str:
        """No title."""
        return ""

    @property
    def author(self) -> None:
        """No author."""

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The tags and the month."""
        tags = {make_named_facet(Kind.TAG, tag): tag for tag in self.tags}
        return tags | {make_month_facet(self.dated_at): f"{self.dated_at:%B %Y}"}


def make_jottings(texts: Sequence[str], *tags: str) -> list[Jotting]:
    """Return a jotting for each text, each dated a day later than the one before."""
    return [
        Jotting(f"j{number:02}", text, tags, NOON + timedelta(days=number))
        for number, text in enumerate(texts)
    ]


def make_corpus(ctx: Context, read: type[Jotting] = Jotting) -> DatedCorpus[Jotting]:
    """Return the corpus of all jottings, which reads them as objects of the class `read`."""
    database = ctx.database
    documents = Documents(
        database, COLLECTION, ("text", "tags", "dated_at"), partial(_to_jotting, read)
    )
    return DatedCorpus(documents, InvertedIndex(database, INDEX_COLLECTIONS))


async def save_jottings(ctx: Context, *new_jottings: Jotting) -> None:
    """Save jottings with their vectors and postings; a jotting replaces one with the same id."""
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    for jotting in new_jottings:
        [vector] = await ctx.embedder.embed([jotting.text], Purpose.DOCUMENT)
        state = compute_indexed_state(jotting)
        fields = {"text": jotting.text, "tags": list(jotting.tags), "dated_at": jotting.dated_at}
        fields |= build_vector_fields(vector, ctx.embedder.model)
        fields["facets"] = select_vector_index_facets(state.facets)
        await _write(ctx, jotting.id, fields, state)


async def delete_jotting(ctx: Context, jotting_id: str) -> None:
    """Delete a jotting and its postings."""
    no_content = dict.fromkeys(("text", "dated_at"), DELETE_FIELD) | NO_VECTOR
    await _write(ctx, jotting_id, no_content | {"facets": []}, NOT_INDEXED)


async def _write(
    ctx: Context, jotting_id: str, fields: dict[str, Any], indexed: IndexedState
) -> None:
    """Write a jotting and its postings in one commit, and retry after conflicts."""
    database = ctx.database

    async def attempt() -> None:
        snapshot = await database.get(Reference(COLLECTION, jotting_id))
        difference = IndexDifference(jotting_id, read_indexed_state(snapshot.fields), indexed)
        document = put_if_unchanged(snapshot, fields | {"indexed": indexed.to_document()})
        await database.commit([document, *build_postings_writes(INDEX_COLLECTIONS, [difference])])

    await database.retry_on_conflict(attempt)


def _to_jotting(read: type[Jotting], jotting_id: str, data: dict[str, Any]) -> Jotting | None:
    """Return the jotting of a document; None if it was deleted."""
    if "text" not in data:
        return None
    return read(jotting_id, data["text"], tuple(data["tags"]), data["dated_at"])

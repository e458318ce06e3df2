"""`PostingsTruncation` finds postings that grew too long, and truncates them, while others write.

Postings are the list of documents for a term or a facet, such as a tag. Those of a term keep the
documents with the highest scores, those of a facet the newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from shared.firestore.database import Database
from shared.firestore.documents import Document, Reference
from shared.index.facets import Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, PostingsTruncation, build_postings_writes
from shared.runtime.context import App, Context
from tests.support.jottings import INDEX_COLLECTIONS
from tests.support.stored_documents import read_documents

SEA = make_named_facet(Kind.TAG, "sea")
SEA_POSTINGS = (INDEX_COLLECTIONS.facets, SEA.id)
RYE, BREAD = (INDEX_COLLECTIONS.lexicon, "rye"), (INDEX_COLLECTIONS.lexicon, "bread")


class RacingDatabase(Database):
    """A database that calls `race` after documents were read, before they are written."""

    race: Callable[[], Awaitable[object]] | None = None

    async def get_all(
        self, references: Sequence[Reference], fields: Sequence[str] | None = None
    ) -> list[Document]:
        """Read documents, and call `race`, the first time only."""
        snapshots = await super().get_all(references, fields)
        race, self.race = self.race, None
        if race:
            await race()
        return snapshots


async def index_document(ctx: Context, number: int, term: str) -> None:
    """Index a new document with the tag sea.

    Args:
        ctx: The context.
        number: The number in the id, which is also the count of the term, and the date.
        term: The only term of the document.
    """
    database = ctx.database
    after = IndexedState({term: number}, {SEA.id: "sea"}, number)
    difference = IndexDifference(f"d{number}", NOT_INDEXED, after)
    await database.commit(build_postings_writes(INDEX_COLLECTIONS, [difference]))


async def list_entries(ctx: Context, name: tuple[str, str]) -> set[str]:
    """Return the ids of the documents in postings."""
    return set((await read_documents(ctx, name[0]))[name[1]]["postings"])


async def test_overlong_postings_of_terms_and_facets_are_found(ctx: Context) -> None:
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=1)
    await index_document(ctx, 1, "rye")
    await index_document(ctx, 2, "rye")
    assert await truncation.find_overlong(9) == []
    await index_document(ctx, 3, "bread")
    assert await truncation.find_overlong(9) == [SEA_POSTINGS]
    for number in (4, 5):
        await index_document(ctx, number, "bread")
    assert set(await truncation.find_overlong(9)) == {SEA_POSTINGS, BREAD}
    await index_document(ctx, 6, "rye")
    assert len(await truncation.find_overlong(1)) == 2
    await truncation.truncate(await truncation.find_overlong(9))
    assert await truncation.find_overlong(9) == []


async def test_truncation_keeps_the_best_or_newest_and_the_frequency(ctx: Context) -> None:
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 6):
        await index_document(ctx, number, "rye")
    await truncation.truncate([RYE, SEA_POSTINGS])
    assert await list_entries(ctx, RYE) == {"d4", "d5"}
    assert await list_entries(ctx, SEA_POSTINGS) == {"d4", "d5"}

    sea = (await read_documents(ctx, INDEX_COLLECTIONS.facets))[SEA.id]
    assert sea["df"] == 5
    assert sea["held"] == 2
    assert sea["since"] == 4
    rye = (await read_documents(ctx, INDEX_COLLECTIONS.lexicon))["rye"]
    assert rye["df"] == 5
    assert rye["held"] == 2
    assert "since" not in rye


async def test_entries_added_during_truncation_are_not_lost(app: App, ctx: Context) -> None:
    database = RacingDatabase(app.connection, ctx.meter)
    truncation = PostingsTruncation(database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 5):
        await index_document(ctx, number, "rye")
        await index_document(ctx, number + 10, "bread")

    async def index_another() -> None:
        await index_document(ctx, 9, "rye")

    database.race = index_another
    await truncation.truncate([RYE, BREAD])
    assert await list_entries(ctx, RYE) == {"d1", "d2", "d3", "d4", "d9"}
    assert await list_entries(ctx, BREAD) == {"d13", "d14"}

    assert RYE in await truncation.find_overlong(9)
    await truncation.truncate([RYE])
    assert await list_entries(ctx, RYE) == {"d4", "d9"}


async def test_truncating_deleted_postings_creates_none(ctx: Context) -> None:
    await PostingsTruncation(ctx.database, INDEX_COLLECTIONS).truncate([RYE])
    assert await read_documents(ctx, INDEX_COLLECTIONS.lexicon) == {}

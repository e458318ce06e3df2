"""Finding and truncating long postings, with concurrent writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.firestore.database import Database
from shared.index.facets import Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, PostingsTruncation, build_postings_writes
from tests.support.jottings import INDEX_COLLECTIONS
from tests.support.query_recorder import record_queries
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from google.cloud.firestore import AsyncDocumentReference, DocumentSnapshot

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

SEA = make_named_facet(Kind.TAG, "sea")
SEA_LIST = (INDEX_COLLECTIONS.facets, SEA.id)
RYE, BREAD = (INDEX_COLLECTIONS.lexicon, "rye"), (INDEX_COLLECTIONS.lexicon, "bread")


@pytest.fixture(autouse=True)
def queries_of_its_own() -> Iterator[None]:
    """Exempt queries that only tests make from the index proof."""
    with record_queries():
        yield


class Raced(Database):
    """A database that runs a callback after documents were read."""

    race: Callable[[], Awaitable[object]] | None = None

    async def get_all(
        self, references: Sequence[AsyncDocumentReference], fields: Sequence[str] | None = None
    ) -> list[DocumentSnapshot[Any]]:
        """Run the callback, the first time only."""
        snapshots = await super().get_all(references, fields)
        race, self.race = self.race, None
        if race:
            await race()
        return snapshots


async def write(ctx: Context, number: int, term: str) -> None:
    """Index a new document.

    Args:
        ctx: The context.
        number: The number in the id, which is also the count of the term, and the date.
        term: The only term of the document.
    """
    database = ctx.database
    after = IndexedState({term: number}, {SEA.id: "sea"}, number)
    difference = IndexDifference(f"d{number}", NOT_INDEXED, after)
    await database.commit(build_postings_writes(database, INDEX_COLLECTIONS, [difference]))


async def list_entries(ctx: Context, name: tuple[str, str]) -> set[str]:
    """Return the ids of the documents in postings."""
    return set((await read_documents(ctx, name[0]))[name[1]]["postings"])


async def test_overlong_postings_of_terms_and_facets_are_found(ctx: Context) -> None:
    lists = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=1)
    await write(ctx, 1, "rye")
    await write(ctx, 2, "rye")
    assert await lists.find_overlong(9) == []
    await write(ctx, 3, "bread")
    assert await lists.find_overlong(9) == [SEA_LIST]
    for number in (4, 5):
        await write(ctx, number, "bread")
    assert set(await lists.find_overlong(9)) == {SEA_LIST, BREAD}
    await write(ctx, 6, "rye")
    assert len(await lists.find_overlong(1)) == 2
    await lists.truncate(await lists.find_overlong(9))
    assert await lists.find_overlong(9) == []


async def test_truncation_keeps_best_or_newest_and_counts(ctx: Context) -> None:
    lists = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 6):
        await write(ctx, number, "rye")
    await lists.truncate([RYE, SEA_LIST])
    assert (await list_entries(ctx, RYE), await list_entries(ctx, SEA_LIST)) == (
        {"d4", "d5"},
        {"d4", "d5"},
    )
    sea = (await read_documents(ctx, INDEX_COLLECTIONS.facets))[SEA.id]
    assert sea["df"] == 5
    assert sea["held"] == 2
    assert sea["since"] == 4
    rye = (await read_documents(ctx, INDEX_COLLECTIONS.lexicon))["rye"]
    assert rye["df"] == 5
    assert rye["held"] == 2
    assert "since" not in rye


async def test_entries_added_during_truncation_are_not_lost(app: App, ctx: Context) -> None:
    database = Raced(app.connection, ctx.meter)
    lists = PostingsTruncation(database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 5):
        await write(ctx, number, "rye")
        await write(ctx, number + 10, "bread")

    async def another() -> None:
        await write(ctx, 9, "rye")

    database.race = another
    await lists.truncate([RYE, BREAD])
    assert await list_entries(ctx, RYE) == {"d1", "d2", "d3", "d4", "d9"}
    assert await list_entries(ctx, BREAD) == {"d13", "d14"}
    assert RYE in await lists.find_overlong(9)
    await lists.truncate([RYE])
    assert await list_entries(ctx, RYE) == {"d4", "d9"}


async def test_deleted_postings_are_not_created_again(ctx: Context) -> None:
    await PostingsTruncation(ctx.database, INDEX_COLLECTIONS).truncate([RYE])
    assert await read_documents(ctx, INDEX_COLLECTIONS.lexicon) == {}

"""`search_kb`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.tools.search_kb.tool import EMPTY, In, search_kb
from shared.errors import Conflict
from shared.store import Meter
from tests.knowledge import BAKING, SAILING, put_in, write

if TYPE_CHECKING:
    from shared.deps import Backend, Deps

pytestmark = pytest.mark.anyio


async def test_the_passage_that_answers_comes_first(deps: Deps) -> None:
    chunks = await put_in(deps, BAKING, SAILING)
    out = await search_kb(In(query="when should one reduce sail?"), deps)
    assert out.results[0].chunk_id == chunks[3].chunk_id
    assert [hit.rank for hit in out.results] == [1, 2, 3, 4, 5]


async def test_a_hit_says_where_it_comes_from(deps: Deps) -> None:
    chunk = (await put_in(deps, BAKING))[0]
    card = {"summary": "Knead and rest.", "takeaways": []}
    await write(deps, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    hit = (await search_kb(In(query="how long to knead dough", limit=1), deps)).results[0]
    assert hit.model_dump(exclude={"similarity"}) == {
        "rank": 1,
        "chunk_id": chunk.chunk_id,
        "source_id": "baking",
        "title": "Bread at Home",
        "author": "Ida Loaf",
        "snippet": chunk.content,
        "summary": "Knead and rest.",
        "readwise_url": "https://readwise.io/open/11",
        "source_url": "https://example.com/bread",
        "highlight_url": "https://example.com/bread#11",
    }


async def test_similarities_are_ordered_and_between_nought_and_one(deps: Deps) -> None:
    await put_in(deps, BAKING, SAILING)
    hits = (await search_kb(In(query="bread"), deps)).results
    scores = [hit.similarity for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


async def test_no_more_hits_than_asked_for(deps: Deps) -> None:
    await put_in(deps, BAKING, SAILING)
    assert len((await search_kb(In(query="bread", limit=2), deps)).results) == 2


async def test_the_query_is_trimmed(deps: Deps) -> None:
    await put_in(deps, BAKING)
    assert (await search_kb(In(query="  bread \n"), deps)).query == "bread"


async def test_an_empty_knowledge_base_says_how_to_fill_it(deps: Deps) -> None:
    out = await search_kb(In(query="anything"), deps)
    assert (out.results, out.message) == ([], EMPTY)


async def test_a_base_embedded_with_another_model_is_refused(deps: Deps) -> None:
    await write(deps, "meta/embedding", {"model": "other", "dimension": 7})
    with pytest.raises(Conflict, match=r"embedded with other \(7 dimensions\)"):
        await search_kb(In(query="anything"), deps)


async def test_a_search_is_one_round_trip_once_the_model_is_confirmed(
    deps: Deps, backend: Backend
) -> None:
    await put_in(deps, BAKING)
    meter = Meter()
    await search_kb(In(query="bread", limit=2), backend.deps(deps.caller, meter))
    assert (meter.round_trips, meter.documents_read, meter.documents_written) == (1, 2, 0)

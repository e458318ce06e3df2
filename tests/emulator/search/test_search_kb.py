"""`search_kb` returns hits in three modes, with their fields.

A `lexical` search compares words, a `semantic` one compares meaning, by vectors, and a `hybrid` one
does both.
"""

from __future__ import annotations

import pytest

from functions.tools.knowledge.search_kb import messages
from functions.tools.knowledge.search_kb.tool import MAX_WEAK_HITS, In, search_kb
from shared.core.errors import Conflict
from shared.knowledge.chunked_source import ChunkedSource
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import Context
from tests.support.knowledge import (
    BAKING,
    SAILING,
    chunk_source,
    embed_all,
    index_all,
    set_fields,
    store_sources,
)
from tests.support.searches import (
    collect_chunk_ids,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
    truncate_postings,
    update_and_index_chunk,
)

REEF = SAILING.sections[0].text
"""A passage that says when to reduce sail."""


@pytest.mark.requirement("000-S4")
@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
async def test_the_passage_that_answers_the_query_comes_first(ctx: Context, mode: str) -> None:
    await store_sources(ctx, BAKING, SAILING)
    [page] = await search_all_pages(ctx, query="how strong wind for the mainsail?", mode=mode)
    assert page.results[0].snippet == REEF
    assert page.matches


async def test_a_lexical_search_finds_only_passages_with_a_term(ctx: Context) -> None:
    _, _, oven, _, anchor = await store_sources(ctx, BAKING, SAILING)
    [page] = await search_all_pages(ctx, query="anchors and ovens", mode="lexical")
    assert set(collect_chunk_ids([page])) == {oven.chunk_id, anchor.chunk_id}


async def test_every_field_of_a_hit_is_returned(ctx: Context) -> None:
    chunk = (await store_sources(ctx, BAKING))[0]
    card = {"summary": "Knead and rest.", "takeaways": ["Wait."]}
    await set_fields(ctx, "clusters/c1", {"name": "Baking bread", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, knowledge_card=card, cluster_id=["c1"])
    hit = (await search_kb(In(query="Knead the doughs until it is", limit=1), ctx)).results[0]
    assert hit.similarity is not None
    assert 0 < hit.similarity < 1
    assert hit.model_dump(mode="json", exclude={"similarity", "date"}) == {
        "rank": 1,
        "chunk_id": chunk.chunk_id,
        "source_id": "baking",
        "title": "Bread at Home",
        "author": "Ida Loaf",
        "source": "kindle",
        "tags": ["food", "dough"],
        "chunk_info": "1/3",
        "snippet": chunk.content,
        "summary": "Knead and rest.",
        "matched_terms": ["Knead", "dough"],
        "found_by": ["semantic", "lexical"],
        "cluster": {"cluster_id": "c1", "name": "Baking bread"},
        "takeaways": None,
        "content": None,
        "readwise_url": "https://readwise.io/open/11",
        "source_url": "https://example.com/bread",
        "highlight_url": "https://example.com/bread#11",
        "page": None,
        "chapter": None,
        "location": None,
    }


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
async def test_a_hit_names_its_cluster_in_every_mode(ctx: Context, mode: str) -> None:
    [chunk] = await store_sources(ctx, make_source_of_text("Knead the dough."))
    await set_fields(ctx, "clusters/c1", {"name": "Baking bread", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    [page] = await search_all_pages(ctx, query="knead the dough", mode=mode)
    assert page.results[0].cluster
    assert page.results[0].cluster.name == "Baking bread"


async def test_full_detail_adds_content_and_takeaways(ctx: Context) -> None:
    chunk = (await store_sources(ctx, BAKING))[0]
    await update_and_index_chunk(
        ctx, chunk.chunk_id, knowledge_card={"summary": "S.", "takeaways": ["Wait."]}
    )
    out = await search_kb(In.model_validate({"query": "knead", "detail": "full"}), ctx)
    assert out.results[0].content == chunk.content
    assert out.results[0].takeaways == ["Wait."]


async def test_a_search_of_cards_returns_takeaways(ctx: Context) -> None:
    chunk = (await store_sources(ctx, BAKING))[0]
    await update_and_index_chunk(
        ctx, chunk.chunk_id, knowledge_card={"summary": "S.", "takeaways": ["Wait."]}
    )
    out = await search_kb(In(query="bread", search_cards_only=True), ctx)
    [hit] = out.results
    assert hit.chunk_id == chunk.chunk_id
    assert hit.takeaways == ["Wait."]


async def test_a_hit_names_the_searches_that_found_it(ctx: Context) -> None:
    *_, anchor = await store_sources(ctx, BAKING, SAILING)

    [semantic_page] = await search_all_pages(ctx, query="anchor", mode="semantic")
    assert semantic_page.results
    assert all(hit.found_by == ["semantic"] for hit in semantic_page.results)

    [lexical_page] = await search_all_pages(ctx, query="anchor", mode="lexical")
    [lexical_hit] = lexical_page.results
    assert lexical_hit.chunk_id == anchor.chunk_id
    assert lexical_hit.found_by == ["lexical"]
    assert lexical_hit.similarity is None

    [hybrid_page] = await search_all_pages(ctx, query="anchor")
    first_hit, *other_hits = hybrid_page.results
    assert first_hit.found_by == ["semantic", "lexical"]
    assert other_hits
    assert all(hit.found_by == ["semantic"] for hit in other_hits)


async def test_a_snippet_shows_the_match_and_not_the_beginning(ctx: Context) -> None:
    text = " ".join(["Bread and more bread."] * 40) + " Then an albatross came by. " + "More. " * 60
    await store_sources(ctx, make_source_of_text(text))
    hit = (await search_kb(In(query="albatrosses"), ctx)).results[0]
    assert "Then an albatross came by." in hit.snippet
    assert hit.matched_terms == ["albatross"]


async def test_a_passage_without_a_vector_is_found_by_its_words(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await Ingestion(ctx.database).save([chunk_source(SAILING)], ctx.clock())
    await index_all(ctx)
    hit = (await search_kb(In(query="reef the mainsail"), ctx)).results[0]
    assert hit.snippet == REEF
    assert hit.similarity is None
    assert hit.found_by == ["lexical"]


async def test_a_passage_not_yet_indexed_is_found_by_its_meaning(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await Ingestion(ctx.database).save([chunk_source(SAILING)], ctx.clock())
    await embed_all(ctx)
    out = await search_kb(In(query="when should one reduce sail in strong wind?"), ctx)
    assert out.results[0].snippet == REEF
    assert out.results[0].found_by == ["semantic"]


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
@pytest.mark.parametrize("filters", [{}, {"category": "documents"}])
async def test_deleted_passages_are_not_found_while_still_indexed(
    ctx: Context, mode: str, filters: dict[str, str]
) -> None:
    remaining_source = make_source_of_text("Strong wind fills a mainsail.", category="documents")
    *_, remaining = await store_sources(ctx, SAILING, remaining_source)
    await Ingestion(ctx.database).save([ChunkedSource(SAILING, [])], ctx.clock())
    query = "mainsail, strong wind"
    pages = await search_all_pages(ctx, query=query, mode=mode, filters=filters, limit=1)
    assert collect_chunk_ids(pages) == [remaining.chunk_id]
    assert pages[0].matches
    assert len(pages[0].results) == 1


async def test_a_search_whose_matches_were_all_deleted_matches_nothing(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await Ingestion(ctx.database).save([ChunkedSource(SAILING, [])], ctx.clock())
    [page] = await search_all_pages(ctx, query="mainsail", mode="lexical")
    assert page.results == []
    assert not page.matches
    assert page.message


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_only_a_few_weak_hits_are_returned_if_nothing_matches(
    ctx: Context, mode: str
) -> None:
    await store_sources(ctx, BAKING, SAILING)
    [page] = await search_all_pages(ctx, query="lattice quantum chromodynamics", mode=mode)
    assert not page.matches
    assert len(page.results) == MAX_WEAK_HITS
    assert page.message == messages.NOTHING_MATCHES

    [page] = await search_all_pages(ctx, 2, query="lattice quantum chromodynamics", mode=mode)
    assert not page.matches
    assert len(page.results) == 2


async def test_a_base_embedded_with_another_model_is_refused(ctx: Context) -> None:
    await set_fields(ctx, "meta/embedding", {"model": "other", "dimension": 7})
    with pytest.raises(Conflict, match=r"embedded with other \(7 dimensions\)"):
        await search_kb(In(query="anything"), ctx)


async def test_a_lexical_search_ignores_the_embedding_model(ctx: Context) -> None:
    _, anchor = await store_sources(ctx, SAILING)
    await set_fields(ctx, "meta/embedding", {"model": "other", "dimension": 7})
    [page] = await search_all_pages(ctx, query="anchor", mode="lexical")
    assert collect_chunk_ids([page]) == [anchor.chunk_id]


async def test_the_limit_bounds_the_hits(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    assert len((await search_kb(In(query="bread", limit=2), ctx)).results) == 2


async def test_the_query_is_trimmed(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert (await search_kb(In(query="  bread \n"), ctx)).query == "bread"


async def test_a_dominant_source_leaves_places_to_other_sources(ctx: Context) -> None:
    dominant_source = make_source_of_texts(
        [f"Anchor, anchor and chain, part {number}." for number in range(6)], "loud"
    )
    other_sources = [
        make_source_of_text(f"Anchor, anchor and chain {place}.", place)
        for place in ("here", "there")
    ]
    await store_sources(ctx, dominant_source, *other_sources)

    [page] = await search_all_pages(ctx, query="anchor and chain")
    source_ids = [hit.source_id for hit in page.results]
    assert sorted(source_ids[:4]) == ["here", "loud", "loud", "there"]
    assert source_ids[4:] == ["loud"] * 4


async def test_a_term_with_truncated_postings_still_counts(ctx: Context) -> None:
    texts = [f"anchor anchor anchor {number}" for number in range(10)]
    await store_sources(
        ctx,
        make_source_of_texts(texts),
        make_source_of_text("A long text in which one anchor lies.", tags=("rare",)),
    )
    await truncate_postings(ctx, "lexicon", cap=5)
    for mode in ("lexical", "hybrid"):
        [page] = await search_all_pages(ctx, query="anchor", mode=mode, filters={"tags": ["rare"]})
        assert page.matches
        [hit] = page.results
        assert hit.title == "Notes"
        assert "lexical" in hit.found_by

"""`search_kb` finds passages by meaning with the real local embedding models."""

from datetime import UTC, datetime

import pytest

from functions.tools.knowledge.search_kb import messages
from shared.ai.local_embedding import LocalEmbedder
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.searches import (
    collect_chunk_ids,
    date_source,
    make_source_of_texts,
    search_all_pages,
)


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    return local_embedder


async def test_meaning_finds_passages_without_the_query_words(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    query = "storm at sea on a yacht"
    [lexical_page] = await search_all_pages(ctx, query=query, mode="lexical")
    [semantic_page] = await search_all_pages(ctx, query=query, mode="semantic")
    assert lexical_page.results == []
    about_sailing = {chunk.chunk_id for chunk in chunks[3:]}
    assert set(collect_chunk_ids([semantic_page])[:2]) == about_sailing


async def test_a_period_lifts_only_passages_that_may_be_on_the_subject(ctx: Context) -> None:
    texts = "The invoices failed because no connection was free.", "A leek tart with old cheese."
    dates = datetime(2023, 3, 1, tzinfo=UTC), datetime(2024, 5, 8, tzinfo=UTC)
    await store_sources(ctx, date_source(make_source_of_texts(texts, "both"), *dates))
    [page] = await search_all_pages(ctx, query="why did the invoices fail in May 2024")
    assert [hit.snippet for hit in page.results if not hit.near] == [texts[0]]
    [page] = await search_all_pages(ctx, query="what did I read in May 2024")
    assert [hit.snippet for hit in page.results] == [texts[1]]


async def test_what_the_model_cannot_read_is_found_by_words_alone(ctx: Context) -> None:
    """The similarity of an emoji or a Greek word and any text is noise."""
    texts = ["我们在港口等渡轮。", "🍋 Lemon tart and a 🚀 of sugar.", "Der Hafen schläft."]
    await store_sources(ctx, make_source_of_texts(texts))
    for query, text in {"渡轮": texts[0], "🚀": texts[1], "🍋": texts[1]}.items():
        [page, *_] = await search_all_pages(ctx, query=query)
        assert (page.matches, page.results[0].snippet) == (True, text)
    for query in ("🎂", "😀😀", "天气预报", "φώκια", "מגדלור"):
        [page] = await search_all_pages(ctx, query=query)
        assert not page.matches


async def test_question_and_passage_may_be_in_different_languages(ctx: Context) -> None:
    texts = {
        "bread": "Den Teig über Nacht im Kühlschrank gehen lassen und morgens backen.",
        "lease": "The lease may be terminated with three months' notice.",
        "bees": "蜜蜂通过跳舞告诉同伴花在哪里。",
    }
    await store_sources(ctx, make_source_of_texts(list(texts.values())))
    for query, subject in {
        "When does the loaf go into the oven?": "bread",
        "Wie lange ist die Kündigungsfrist der Wohnung?": "lease",
        "¿Cómo se comunican los insectos?": "bees",
        "How do insects communicate?": "bees",
        "面包什么时候烤": "bread",
    }.items():
        [page] = await search_all_pages(ctx, query=query, mode="semantic")
        assert page.results[0].snippet == texts[subject]


async def test_a_question_of_stop_words_is_said_to_be_too_common(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    [page] = await search_all_pages(ctx, query="it")
    assert page.message == f"{messages.COMMON_WORDS} {messages.NOTHING_MATCHES}"

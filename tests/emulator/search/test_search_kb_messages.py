"""`search_kb` explains empty and incomplete results in a message."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.tools.knowledge.search_kb import messages
from functions.tools.knowledge.search_kb.tool import TOOL, In, Out, search_kb
from shared.ai.embedding import Purpose, Vector
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallAnswer, CallRequest
from shared.search.hybrid import MAX_TERMS
from shared.search.query import Mode
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import SAILING, chunk_source, index_all, set_fields, store_sources
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.searches import (
    collect_chunk_ids,
    make_source_of_text,
    make_source_of_texts,
    truncate_postings,
    update_and_index_chunk,
)

OUT_OF_TIME = "The search by meaning did not finish in time. Only words were searched."
MODES = ["semantic", "lexical", "hybrid"]
# Emoji, scripts without spaces, control characters, and texts that are no valid document ids.
UNUSUAL_TEXTS = [
    "⚓️ 🧑‍🚀👩‍👩‍👧",
    "مرساة السفينة",
    "\u202eanchor\u202c",
    "anchor\x00chain",
    "\x00",
    "...",
    "a/b/../c __x__ . ..",
    "東京の錨 한국어 ที่บ้าน",
    "\u0301" * 300,
    "x" * 2_000,
    "\U0010ffff\ufffe",
]


async def search(ctx: Context, **arguments: Any) -> Out:
    """Return a page of hits."""
    return await search_kb(In.model_validate(arguments), ctx)


@pytest.mark.parametrize("mode", MODES)
async def test_an_empty_base_says_how_to_add_texts(ctx: Context, mode: str) -> None:
    out = await search(ctx, query="anything", mode=mode)
    assert out.results == []
    assert not out.matches
    assert out.next_cursor is None
    assert out.message == messages.explain_empty()


async def test_a_base_without_vectors_is_searched_by_words(ctx: Context) -> None:
    await Ingestion(ctx.database).save([chunk_source(SAILING)], ctx.clock())
    await index_all(ctx)
    out = await search(ctx, query="anchor")
    assert len(out.results) == 1
    assert out.message == "Nothing has been embedded yet. Only words were searched."

    semantic_page = await search(ctx, query="anchor", mode="semantic")
    assert semantic_page.results == []
    assert semantic_page.message == "Nothing has been embedded yet."


async def test_words_are_searched_while_the_embedding_model_is_down(
    ctx: Context, embedder: WordEmbedder
) -> None:
    _, anchor = await store_sources(ctx, SAILING)
    embedder.is_down = True
    out = await search(ctx, query="anchor")
    assert collect_chunk_ids([out]) == [anchor.chunk_id]
    assert out.matches
    assert out.message == (
        "The embedding provider cannot be reached right now. Only words were searched."
    )
    with pytest.raises(Unavailable):
        await search(ctx, query="anchor", mode="semantic")


async def test_a_repeated_query_is_answered_while_the_model_is_down(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await store_sources(ctx, SAILING)
    out = await search(ctx, query="anchor")
    embedder.is_down = True
    assert await search(ctx, query="anchor") == out


async def test_a_message_says_that_no_passage_has_the_words(ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    out = await search(ctx, query="zymurgy", mode="lexical")
    assert out.results == []
    assert not out.matches
    assert out.message == messages.NO_WORDS

    filters = {"category": SAILING.category}
    out = await search(ctx, query="zymurgy", mode="lexical", filters=filters)
    assert out.results == []
    assert not out.matches
    assert out.message == messages.NO_WORDS_HERE


@pytest.mark.parametrize("query", [None, "anchor"])
async def test_a_message_says_that_nothing_passes_all_filters(
    ctx: Context, query: str | None
) -> None:
    await store_sources(
        ctx,
        make_source_of_text("anchor", tags=("sea",)),
        make_source_of_text("anchor", "b", author="Ann"),
    )
    out = await search(ctx, query=query, filters={"tags": ["sea"], "author": "Ann"})
    assert out.results == []
    assert not out.matches
    assert out.message == messages.NOTHING_PASSES


@pytest.mark.parametrize("query", [None, "anchor"])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": ["foood"]}, "There is no tag 'foood'. Nearest: 'Food'."),
        ({"author": "Loaf"}, "There is no author 'Loaf'. Nearest: 'Ida Loaf'."),
        ({"source": "on anchor"}, "There is no source 'on anchor'. Nearest: 'On Anchors'."),
        ({"category": "book"}, "There is no category 'book'. Nearest: 'books'."),
        ({"cluster_id": "c11"}, "There is no cluster 'c11'. Nearest: c1 (At Sea)."),
        ({"tags": ["zzzz"]}, "There is no tag 'zzzz', nor any like it."),
        ({"tags": ["\x00", "\u202e'"]}, "There is no tag '\\x00', nor any"),
    ],
)
async def test_an_unknown_filter_value_is_named_with_similar_values(
    ctx: Context, query: str | None, filters: dict[str, Any], expected: str
) -> None:
    fields: dict[str, Any] = {"author": "Ida Loaf", "tags": ("Food",), "title": "On Anchors"}
    [chunk] = await store_sources(ctx, make_source_of_text("An anchor.", **fields))
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    out = await search(ctx, query=query, filters=filters)
    assert out.results == []
    assert not out.matches
    assert out.message
    assert out.message.startswith(expected)


async def test_a_cluster_is_suggested_once_by_id_and_name(ctx: Context) -> None:
    [chunk] = await store_sources(ctx, make_source_of_text("An anchor."))
    await set_fields(ctx, "clusters/sailing", {"name": "Sailing", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["sailing"])
    out = await search(ctx, query="anchor", filters={"cluster_id": "sailling"})
    assert out.message
    assert out.message.count("sailing (Sailing)") == 1


async def test_known_tags_find_passages_despite_unknown_tags(ctx: Context) -> None:
    tagged, _ = await store_sources(
        ctx,
        make_source_of_text("An anchor.", tags=("food",)),
        make_source_of_text("An anchor too.", "b"),
    )
    out = await search(ctx, query="anchor", filters={"tags": ["qqqq", "FOOD", "fod"]})
    assert collect_chunk_ids([out]) == [tagged.chunk_id]
    assert out.matches
    assert out.message == (
        "There is no tag 'qqqq', nor any like it. There is no tag 'fod'. Nearest: 'food'."
    )


async def test_a_message_says_that_there_are_no_cards(ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    out = await search(ctx, query="anchor", search_cards_only=True)
    assert out.message
    assert out.message.startswith("No passage has a knowledge card yet")


async def test_a_message_says_that_postings_are_truncated(ctx: Context) -> None:
    """Postings are the lists of passages by word. Truncated, they may lack passages that pass."""
    better_texts = [f"anchor anchor anchor {number}" for number in range(150)]
    tagged_texts = [f"one anchor in {number} words" for number in range(130)]
    await store_sources(
        ctx,
        make_source_of_texts(better_texts, "better"),
        make_source_of_texts(tagged_texts, tags=("big",)),
    )
    await truncate_postings(ctx, "lexicon", cap=20)
    out = await search(ctx, query="anchor", mode="lexical", filters={"tags": ["big"]})
    assert out.message
    assert messages.TRUNCATED in out.message


@pytest.mark.parametrize("mode", MODES)
async def test_stop_words_are_searched_by_meaning_only(ctx: Context, mode: str) -> None:
    await store_sources(ctx, make_source_of_texts(["What is it that it is?", "An anchor."]))
    out = await search(ctx, query="what is it?", mode=mode)
    if mode == "lexical":
        assert out.results == []
        assert out.message == messages.COMMON_WORDS
    else:
        assert out.results[0].snippet == "What is it that it is?"
        assert out.results[0].matched_terms == []


async def test_a_long_query_reads_a_bounded_number_of_terms(ctx: Context, app: App) -> None:
    words = [f"w{number}" for number in range(300)]
    [chunk] = await store_sources(ctx, make_source_of_text(" ".join(words)))
    call_ctx = make_call_context(app)
    out = await search(call_ctx, query=" ".join(words), mode="lexical")
    assert collect_chunk_ids([out]) == [chunk.chunk_id]
    totals, passage = 1, 1
    assert get_read_cost(call_ctx).documents == MAX_TERMS + totals + passage


async def invoke_search(app: App, arguments: dict[str, Any]) -> CallAnswer:
    """Call the tool as the gateway does, so that the arguments are validated."""
    request = CallRequest(
        call_id="c", arguments=arguments, caller=Caller(), deadline=time.time() + 20
    )
    return await invoke(TOOL, request, app)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", UNUSUAL_TEXTS)
async def test_an_unusual_query_is_searched_or_refused(app: App, mode: str, query: str) -> None:
    await store_sources(app.context(Caller(), Meter()), make_source_of_text("An anchor ⚓️ 東京."))
    answer = await invoke_search(app, {"query": query, "mode": mode})
    assert answer.result or (answer.error and answer.error.code == "VALIDATION_ERROR")


@pytest.mark.parametrize("name", [*UNUSUAL_TEXTS, "\ud800"])
async def test_an_unusual_filter_finds_nothing_or_is_refused(app: App, name: str) -> None:
    await store_sources(app.context(Caller(), Meter()), make_source_of_text("An anchor ⚓️ 東京."))
    for filters in ({"tags": [name]}, {"author": name}, {"source": name}, {"cluster_id": name}):
        for query_arguments in ({}, {"query": "anchor"}):
            answer = await invoke_search(app, {"filters": filters, **query_arguments})
            is_rejected = answer.error and answer.error.code == "VALIDATION_ERROR"
            assert is_rejected or (answer.result and answer.result["results"] == [])


async def test_filters_find_unusual_names(ctx: Context) -> None:
    """Names are stored without NUL, and cannot consist of dots and accents alone."""
    for text in UNUSUAL_TEXTS:
        if not text.strip("\x00\u0301."):
            continue
        name = text[:400].replace("\x00", " ")
        source = make_source_of_text("An anchor.", "unusual", tags=(name,), author=name)
        await store_sources(ctx, source)
        for mode in MODES:
            filters = {"tags": [name.upper()], "author": name}
            out = await search(ctx, query="anchor", mode=mode, filters=filters)
            assert len(out.results) == 1


async def test_a_message_says_how_many_passages_are_not_indexed(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_text("An anchor."))
    unindexed_source = make_source_of_texts(["a", "b"])
    await Ingestion(ctx.database).save([chunk_source(unindexed_source)], ctx.clock())
    out = await search(ctx, query="bell", mode="lexical")
    assert out.message
    assert "2 passages still wait to be indexed." in out.message


async def test_words_are_searched_if_embedding_takes_too_long(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await store_sources(ctx, SAILING)
    embedder.is_silent = True
    out = await search(replace(ctx, deadline=time.time()), query="anchor chain")
    assert out.matches
    assert out.message == OUT_OF_TIME
    assert [hit.found_by for hit in out.results] == [[Mode.LEXICAL]]


async def test_words_are_searched_if_comparing_takes_too_long(
    ctx: Context, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a filter, vectors are compared after the query is embedded, here after the deadline."""
    await store_sources(ctx, SAILING)
    deadline, embed = time.time() + 100, embedder.embed

    async def embed_until_the_deadline(texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        monkeypatch.setattr(time, "time", lambda: deadline)
        return await embed(texts, purpose)

    monkeypatch.setattr(embedder, "embed", embed_until_the_deadline)
    ctx = replace(ctx, deadline=deadline)
    out = await search(ctx, query="anchor chain", filters={"source": SAILING.title})
    assert out.matches
    assert out.message == OUT_OF_TIME
    assert [hit.found_by for hit in out.results] == [[Mode.LEXICAL]]

"""`search_kb` explains empty and incomplete results in a message."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.tools.knowledge.search_kb import messages
from functions.tools.knowledge.search_kb.tool import In, Out, search_kb
from shared.ai.embedding import Purpose, Vector
from shared.core.errors import Unavailable
from shared.runtime.context import App, Context
from shared.search.hybrid import MAX_TERMS
from shared.search.query import Mode
from tests.support.apps import Apps
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import (
    SAILING,
    index_all,
    ingest_sources,
    set_fields,
    store_sources,
)
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.searches import (
    collect_chunk_ids,
    make_source_of_text,
    make_source_of_texts,
    update_and_index_chunk,
)
from tests.support.tool_calls import call

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
    "\ud800",
]


async def search(ctx: Context, **arguments: Any) -> Out:
    return await search_kb(In.model_validate(arguments), ctx)


@pytest.mark.parametrize("mode", MODES)
async def test_an_empty_base_says_how_to_add_texts(ctx: Context, mode: str) -> None:
    out = await search(ctx, query="anything", mode=mode)
    message = messages.explain_empty()
    assert out == Out(
        query="anything",
        matches=False,
        understood=None,
        results=[],
        clusters=None,
        next_cursor=None,
        message=message,
    )


async def test_a_base_without_vectors_is_searched_by_words(ctx: Context) -> None:
    await ingest_sources(ctx, SAILING)
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
    """A query that was embedded before is searched by meaning, too."""
    _, anchor = await store_sources(ctx, SAILING)
    before = await search(ctx, query="chain")
    embedder.is_down = True
    assert await search(ctx, query="chain") == before
    out = await search(ctx, query="anchor")
    assert collect_chunk_ids([out]) == [anchor.chunk_id]
    assert out.matches
    assert out.message == (
        "The embedding provider cannot be reached right now. Only words were searched."
    )
    with pytest.raises(Unavailable):
        await search(ctx, query="anchor", mode="semantic")


async def test_a_message_says_that_no_passage_has_the_words(ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    for filters, message in (
        ({}, messages.NO_WORDS),
        ({"category": SAILING.category}, messages.NO_WORDS_HERE),
    ):
        out = await search(ctx, query="zymurgy", mode="lexical", filters=filters)
        assert (out.results, out.matches, out.message) == ([], False, message)
    out = await search(ctx, query="anchor", search_cards_only=True)
    assert (out.message or "").startswith("No passage has a knowledge card yet")


@pytest.fixture(scope="module")
async def base(shared_apps: Apps) -> Context:
    """A passage with a value of each filter, and another without."""
    ctx = shared_apps.context()
    fields: dict[str, Any] = {"author": "Ida Loaf", "tags": ("Food",), "title": "On Anchors"}
    tagged = make_source_of_text("An anchor.", "tagged", **fields)
    [chunk, _] = await store_sources(ctx, tagged, make_source_of_text("anchor", "b", author="Ann"))
    for cluster_id, name in (("c1", "At Sea"), ("sailing", "Sailing")):
        await set_fields(ctx, f"clusters/{cluster_id}", {"name": name, "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1", "sailing"])
    return ctx


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": ["food"], "author": "Ann"}, messages.NOTHING_PASSES),
        ({"tags": ["foood"]}, "There is no tag 'foood'. Nearest: 'Food'."),
        ({"author": "Loaf"}, "There is no author 'Loaf'. Nearest: 'Ida Loaf'."),
        ({"source": "on anchor"}, "There is no source 'on anchor'. Nearest: 'On Anchors'."),
        ({"category": "book"}, "There is no category 'book'. There are: books."),
        ({"cluster_id": "c11"}, "There is no cluster 'c11'. Nearest: c1 (At Sea)."),
        ({"cluster_id": "sailling"}, "There is no cluster 'sailling'. Nearest: sailing (Sailing)."),
        ({"tags": ["zzzz"]}, "There is no tag 'zzzz', nor any like it."),
        (
            {"tags": ["\x00"]},
            "There is no tag '\\x00', nor any like it.",
        ),
    ],
)
async def test_an_unknown_filter_value_is_named_with_similar_values(
    base: Context, filters: dict[str, Any], expected: str
) -> None:
    for query in (None, "anchor"):
        out = await search(base, query=query, filters=filters)
        assert (out.results, out.matches, out.message) == ([], False, expected)


async def test_known_tags_find_passages_despite_unknown_tags(base: Context) -> None:
    out = await search(base, query="anchor", filters={"tags": ["qqqq", "FOOD", "fod"]})
    assert [hit.source_id for hit in out.results] == ["tagged"]
    assert out.matches
    assert out.message == (
        "There is no tag 'qqqq', nor any like it. There is no tag 'fod'. Nearest: 'Food'."
    )


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("mainsal", "mainsail"),
        ("ancohrs of stromg", "anchors strong"),
        ("zymurgy", None),
        ("sleet", None),
        ("gald", None),
    ],
)
async def test_the_nearest_known_word_is_suggested(
    ctx: Context, query: str, suggestion: str | None
) -> None:
    await store_sources(ctx, SAILING)
    out = await search(ctx, query=query, mode="lexical")
    expected = f'Did you mean "{suggestion}"? ' if suggestion else ""
    assert (out.results, out.message) == ([], f"{expected}{messages.NO_WORDS}")


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
        assert (messages.COMMON_WORDS in str(out.message)) is (mode == "hybrid")


async def test_a_long_query_reads_a_bounded_number_of_terms(ctx: Context, app: App) -> None:
    words = [f"w{number}" for number in range(100)]
    [chunk] = await store_sources(ctx, make_source_of_text(" ".join(words)))
    call_ctx = make_call_context(app)
    out = await search(call_ctx, query=" ".join(words), mode="lexical")
    assert collect_chunk_ids([out]) == [chunk.chunk_id]
    totals, passage, notes = 1, 1, 1
    assert get_read_cost(call_ctx).documents == MAX_TERMS + totals + passage + notes


async def call_search(app: App, **arguments: Any) -> list[Any]:
    """Return the hits of a call, or none if its arguments are refused."""
    answer = await call(app, "search_kb", **arguments)
    assert answer.result or (answer.error and answer.error.code == "VALIDATION_ERROR")
    return list((answer.result or {}).get("results", ()))


async def test_an_unusual_query_or_filter_is_searched_or_refused(app: App, ctx: Context) -> None:
    await store_sources(ctx, make_source_of_text("An anchor ⚓️ 東京."))
    for text in UNUSUAL_TEXTS:
        for mode in MODES:
            await call_search(app, query=text, mode=mode)
        for filters in ({"tags": [text]}, {"author": text}, {"source": text}, {"cluster_id": text}):
            assert await call_search(app, filters=filters) == []
            assert await call_search(app, query="anchor", filters=filters) == []


async def test_filters_find_unusual_names(ctx: Context) -> None:
    """Names are stored without NUL, and cannot consist of dots and accents alone."""
    for text in UNUSUAL_TEXTS:
        if not text.strip("\x00\u0301.\ud800"):
            continue
        name = text[:400].replace("\x00", " ")
        source = make_source_of_text("An anchor.", "unusual", tags=(name,), author=name)
        await store_sources(ctx, source)
        for mode in MODES:
            filters = {"tags": [name.upper()], "author": name}
            out = await search(ctx, query="anchor", mode=mode, filters=filters)
            assert len(out.results) == 1


async def test_a_message_says_that_new_passages_are_not_found_yet(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_text("An anchor."))
    await ingest_sources(ctx, make_source_of_texts(["a", "b"]))
    out = await search(ctx, query="bell", mode="lexical")
    assert out.message == f"{messages.NO_WORDS} {messages.NOT_INDEXED}"


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

"""`max_tokens`: shorter pages of whole items, which together are the same list."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_core import to_json

from functions.gateway.mcp.results import to_compact_json
from functions.jobs.cluster.job import cluster
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.job import Budget
from shared.runtime.pagination import BYTES_PER_TOKEN, PagedArguments, compute_byte_budget
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.knowledge import index_all, store_sources
from tests.support.tasks import add_tasks
from tests.support.themed_passages import make_themed_source
from tests.support.tool_calls import ANNA, call, call_error, call_result
from tests.support.traces import contribute

if TYPE_CHECKING:
    from shared.runtime.context import App
    from tests.emulator.conftest import NewBackend

pytestmark = pytest.mark.anyio

LISTS: list[tuple[str, dict[str, Any], str]] = [
    ("search_kb", {"query": "bread1"}, "results"),
    ("search_kb", {"filters": {"source": "bread"}, "detail": "full"}, "results"),
    ("get_source", {"source_id": "bread"}, "chunks"),
    ("get_source", {"source_id": "bread", "detail": "full"}, "chunks"),
    ("get_cluster", {}, "members"),
    ("get_recent", {"period": "today"}, "chunks"),
    ("list_sources", {}, "sources"),
    ("list_clusters", {}, "clusters"),
    ("get_decisions", {}, "results"),
    ("list_topics", {}, "topics"),
    ("list_tasks", {}, "tasks"),
    ("search_traces", {"query": "error"}, "results"),
    ("list_tags", {}, "tags"),
]
SAME_AS_DECISIONS = {"get_patterns", "get_warnings", "get_methodologies"}
"""They differ in their fields alone."""
BUDGETS = [100, 600, 2_000]


@pytest.fixture(scope="module")
async def app(new_backend: NewBackend) -> App:
    """A base with some of everything that is listed."""
    app = new_backend(None)
    await add_tasks(app, *(f"Buy flour {number}" for number in range(12)), user=ANNA)
    for number in range(4):
        await contribute(app, number)
    ctx = app.context(Caller.of(ANNA), Meter())
    chunks = await store_sources(ctx, *(make_themed_source(theme) for theme in ("bread", "boats")))
    await cluster(ctx, Budget(time.monotonic() + 3600))
    await index_all(ctx)
    extractions = [
        make_extraction(chunk, make_decision(f"Is it {chunk.chunk_id}?"), f"topic {number % 6}")
        for number, chunk in enumerate(chunks)
    ]
    await store_extractions(ctx, *extractions)
    return app


def test_every_tool_with_pages_is_tried() -> None:
    with_pages = {
        tool.name
        for tool in tools()
        if issubclass(tool.input, PagedArguments) and not tool.internal
    }
    assert with_pages == {name for name, _, _ in LISTS} | SAME_AS_DECISIONS


@pytest.mark.parametrize(("name", "arguments", "field"), LISTS)
async def test_short_pages_are_the_same_list(
    app: App, name: str, arguments: dict[str, Any], field: str
) -> None:
    if name == "get_cluster":
        clusters = (await call_result(app, "list_clusters"))["clusters"]
        arguments = {"cluster_id": clusters[0]["cluster_id"]}
    all_pages = await read_pages(app, name, **arguments)
    whole = [item for result, _ in all_pages for item in result[field]]
    assert len(whole) > 1
    page_counts = []
    for max_tokens in BUDGETS:
        pages = await read_pages(app, name, **arguments, max_tokens=max_tokens)
        assert [item for result, _ in pages for item in result[field]] == whole
        for result, text in pages:
            size = max(len(text.encode()), len(to_compact_json(result)))
            assert size <= max_tokens * BYTES_PER_TOKEN or len(result[field]) == 1
        page_counts.append(len(pages))
    assert page_counts[0] > page_counts[-1]


async def read_pages(app: App, name: str, **arguments: Any) -> list[tuple[dict[str, Any], str]]:
    """Return the results of all pages, each with the text that models read."""
    pages: list[tuple[dict[str, Any], str]] = []
    cursor: dict[str, Any] = {}
    while len(pages) < 100:
        answer = await call(app, name, **arguments, **cursor)
        assert answer.result is not None, answer.error
        pages.append((answer.result, answer.text or to_compact_json(answer.result)))
        next_cursor = answer.result.get("metadata", answer.result).get("next_cursor")
        if next_cursor is None:
            return pages
        cursor = {"cursor": next_cursor}
    raise AssertionError("the pages do not end")


async def test_a_passage_comes_whole_with_the_related_ones_that_fit(app: App) -> None:
    [hit] = (await call_result(app, "search_kb", query="bread1", limit=1))["results"]
    whole = await call_result(app, "get_chunk", chunk_id=hit["chunk_id"])
    shorter = await call_result(app, "get_chunk", chunk_id=hit["chunk_id"], max_tokens=450)
    shortest = await call_result(app, "get_chunk", chunk_id=hit["chunk_id"], max_tokens=100)
    assert 0 < len(shorter["related_chunks"]) < len(whole["related_chunks"])
    assert shorter["related_chunks"] == whole["related_chunks"][: len(shorter["related_chunks"])]
    omitted = len(whole["related_chunks"])
    message = f"max_tokens left out {omitted} notes and related passages."
    assert shortest == whole | {"related_chunks": [], "message": message}


@pytest.mark.parametrize(
    ("sentence", "max_tokens"),
    [("The chain is long. " * 20, 500), ("鎖は長く、錨はよく効く。" * 20, 1_000)],
    ids=["English", "Japanese"],
)
async def test_key_passages_that_do_not_fit_are_left_out(
    app: App, sentence: str, max_tokens: int
) -> None:
    text = "\n\n".join(f"Anchor {number} holds. {sentence}" for number in range(9))
    arguments = {"query": "Which anchor holds?", "materials": text}
    whole = await call_result(app, "extract_key_info", **arguments)
    shorter = await call_result(app, "extract_key_info", **arguments, max_tokens=max_tokens)
    count = len(shorter["contexts"])
    assert 1 < count < len(whole["contexts"])
    assert shorter["contexts"] == whole["contexts"][:count]
    assert len(shorter["passages"]) == count
    sizes = [
        len(to_json(context)) + len(to_json(passage))
        for context, passage in zip(whole["contexts"], whole["passages"], strict=True)
    ]
    budget = compute_byte_budget(max_tokens)
    assert sum(sizes[:count]) <= budget < sum(sizes[: count + 1])
    omitted = len(whole["contexts"]) - count
    assert f"left out the last {omitted} of the passages" in shorter["message"]


async def test_too_few_tokens_are_refused(app: App) -> None:
    error = await call_error(app, "list_sources", max_tokens=99)
    assert list(error.details) == ["max_tokens"]

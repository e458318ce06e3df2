"""The argument `max_tokens` makes pages shorter, without cutting an item or losing one.

It limits the size of an answer, for models whose context is small.
"""

import time
from typing import Any

import pytest
from pydantic_core import to_json

from functions.gateway.mcp.results import to_compact_json
from functions.jobs.cluster.job import cluster
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.runtime.job import Budget
from shared.runtime.pagination import BYTES_PER_TOKEN, PagedArguments, compute_byte_budget
from tests.support.apps import Apps
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.knowledge import index_all, store_sources
from tests.support.tasks import add_tasks
from tests.support.themed_passages import make_themed_source
from tests.support.tool_calls import ANNA, call, call_result
from tests.support.traces import contribute

PAGED_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("search_kb", {"query": "bread1"}, "results"),
    ("search_kb", {"filters": {"source": "bread"}, "detail": "full"}, "results"),
    ("get_source", {"source_id": "bread"}, "chunks"),
    ("get_source", {"source_id": "bread"}, "chunks"),
    ("get_cluster", {}, "members"),
    ("get_recent", {"period": "today"}, "chunks"),
    ("list_sources", {}, "sources"),
    ("list_clusters", {}, "clusters"),
    ("get_decisions", {}, "results"),
    ("list_topics", {}, "topics"),
    ("list_tasks", {}, "tasks"),
    ("get_changes", {}, "changes"),
    ("search_traces", {"query": "error"}, "results"),
    ("list_tags", {}, "tags"),
]
"""The tool, the arguments and the field of the result that has the items."""
TOOLS_LIKE_GET_DECISIONS = {"get_patterns", "get_warnings", "get_methodologies"}
"""The tools that differ from `get_decisions` only in the fields of their items."""


@pytest.fixture(scope="module")
async def app(shared_apps: Apps) -> App:
    """An app with some of everything that the tools list."""
    app = shared_apps()
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


def test_every_tool_with_pages_is_tested() -> None:
    public_tools = [tool for tool in tools() if not tool.internal]
    names = {tool.name for tool in public_tools if issubclass(tool.input, PagedArguments)}
    assert names == {tool for tool, *_ in PAGED_CALLS} | TOOLS_LIKE_GET_DECISIONS


@pytest.mark.parametrize(("tool", "arguments", "field"), PAGED_CALLS)
async def test_short_pages_are_the_same_list(
    app: App, tool: str, arguments: dict[str, Any], field: str
) -> None:
    if tool == "get_cluster":
        clusters = (await call_result(app, "list_clusters"))["clusters"]
        arguments = {"cluster_id": clusters[0]["cluster_id"]}
    full_pages = await read_pages(app, tool, **arguments)
    items = list_items(full_pages, field)
    assert items

    page_counts = []
    for max_tokens in (100, 600, 2_000):
        pages = await read_pages(app, tool, **arguments, max_tokens=max_tokens)
        page_counts.append(len(pages))
        assert list_items(pages, field) == items
        for result, text in pages:
            size = max(len(text.encode()), len(to_compact_json(result)))
            # An item that alone exceeds the limit has a page of its own.
            assert size <= max_tokens * BYTES_PER_TOKEN or len(result[field]) == 1
    assert len(items) == 1 or page_counts[0] > page_counts[-1]


def list_items(pages: list[tuple[dict[str, Any], str]], field: str) -> list[dict[str, Any]]:
    """Return the items of all pages, but the hits of a search that are only near."""
    return [
        item
        for result, _ in pages
        for item in result[field]
        if isinstance(item, str) or not item.get("near")
    ]


async def read_pages(app: App, tool: str, **arguments: Any) -> list[tuple[dict[str, Any], str]]:
    """Return the results of all pages, and the texts that models read."""
    pages: list[tuple[dict[str, Any], str]] = []
    cursor: dict[str, Any] = {}
    while len(pages) < 100:
        answer = await call(app, tool, **arguments, **cursor)
        assert answer.result is not None, answer.error
        pages.append((answer.result, answer.text or to_compact_json(answer.result)))
        next_cursor = answer.result.get("metadata", answer.result).get("next_cursor")
        if next_cursor is None:
            return pages
        cursor = {"cursor": next_cursor}
    raise AssertionError("the pages do not end")


async def test_a_passage_comes_whole_with_the_related_ones_that_fit(app: App) -> None:
    [hit] = (await call_result(app, "search_kb", query="bread1", limit=1))["results"]
    arguments = {"chunk_id": hit["chunk_id"], "related_limit": 20}
    full = await call_result(app, "get_chunk", **arguments)
    short = await call_result(app, "get_chunk", **arguments, max_tokens=450)
    shortest = await call_result(app, "get_chunk", **arguments, max_tokens=100)

    related_count = len(full["related_chunks"])
    short_count = len(short["related_chunks"])
    assert 0 < short_count < related_count
    assert short["related_chunks"] == full["related_chunks"][:short_count]
    message = f"max_tokens left out {related_count} notes and related passages."
    assert shortest == full | {"related_chunks": [], "message": message}


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
    full = await call_result(app, "extract_key_info", **arguments)
    short = await call_result(app, "extract_key_info", **arguments, max_tokens=max_tokens)

    count = len(short["contexts"])
    assert 1 < count < len(full["contexts"])
    assert short["contexts"] == full["contexts"][:count]
    assert len(short["passages"]) == count
    omitted = len(full["contexts"]) - count
    assert f"left out the last {omitted} of the passages" in short["message"]

    sizes = [
        len(to_json(context)) + len(to_json(passage))
        for context, passage in zip(full["contexts"], full["passages"], strict=True)
    ]
    budget = compute_byte_budget(max_tokens)
    assert sum(sizes[:count]) <= budget < sum(sizes[: count + 1])

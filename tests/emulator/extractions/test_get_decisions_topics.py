"""Topics and sources by which `get_decisions` and its siblings filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.core.settings import Settings
from tests.support.extractions import cost, decision, hold, ids, of, pattern, warning
from tests.support.tool_calls import call_error, call_result

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(project: str) -> Settings:
    """With a topic of the house's own."""
    return Settings(google_cloud_project=project, topic_aliases={"Brot": "bread baking"})


async def hold_decisions(ctx: Context, chunks: list[Chunk]) -> dict[str, str]:
    """Hold decisions about several topics; return their ids by what they ask."""
    held = [
        of(chunks[0], decision("llm"), "large language models", "bread baking"),
        of(chunks[3], decision("llm at sea"), "large language models"),
        of(chunks[1], decision("k8s"), "kubernetes"),
        of(chunks[3], decision("k8s at sea"), "kubernetes", "bread baking"),
    ]
    await hold(
        ctx,
        *held,
        of(chunks[2], pattern(), "kubernetes", "sourdough"),
        of(chunks[2], warning(), "sourdough"),
    )
    return {each.extraction_id: each.content.model_dump()["question"] for each in held}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"topic": "kubernetes"}, ["k8s", "k8s at sea"]),
        ({"topic": "KUBERNETES"}, ["k8s", "k8s at sea"]),
        ({"topic": " K8S "}, ["k8s", "k8s at sea"]),
        ({"topic": "LLMs"}, ["llm", "llm at sea"]),
        ({"topic": "Large-Language_Model"}, ["llm", "llm at sea"]),
        ({"topic": "brot"}, ["k8s at sea", "llm"]),
        ({"topic": "llm", "source_id": "sailing"}, ["llm at sea"]),
        ({"topic": "brot", "source_id": "baking"}, ["llm"]),
        ({"source_id": "sailing"}, ["k8s at sea", "llm at sea"]),
        ({"topic": "k8s", "query": "k8s at sea", "limit": 1}, ["k8s at sea"]),
        ({"topic": "k8s", "query": "llm", "source_id": "baking"}, ["k8s"]),
        ({"query": "sea", "source_id": "sailing"}, ["k8s at sea", "llm at sea"]),
    ],
)
async def test_a_filter_leaves_what_passes_it(
    ctx: Context,
    app: App,
    chunks: list[Chunk],
    arguments: dict[str, Any],
    expected: list[str],
) -> None:
    asks = await hold_decisions(ctx, chunks)
    found = await call_result(app, "get_decisions", **arguments)
    assert expected == sorted(asks[each] for each in ids([found]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"topic": "K8s"}, ("kubernetes", "filtered")),
        ({"topic": "Nowhere"}, ("nowhere", "filtered")),
        ({"source_id": "baking"}, ("all", "filtered")),
        ({"query": "sea"}, ("all", "semantic")),
        ({"topic": "K8s", "query": "sea"}, ("kubernetes", "semantic")),
    ],
)
async def test_the_metadata_name_the_topic_and_the_kind_of_search(
    ctx: Context,
    app: App,
    chunks: list[Chunk],
    arguments: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    await hold_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", **arguments))["metadata"]
    assert expected == (metadata["query"], metadata["search_type"])


@pytest.mark.parametrize("more", [{}, {"query": "sea"}, {"source_id": "baking"}])
async def test_an_unknown_topic_finds_nothing_and_names_the_nearest(
    ctx: Context, app: App, chunks: list[Chunk], more: dict[str, Any]
) -> None:
    await hold_decisions(ctx, chunks)
    found = await call_result(app, "get_decisions", topic="Kubernetties", **more)
    metadata = found["metadata"]
    assert ([], [], 0) == (found["results"], metadata["sources_cited"], metadata["result_count"])
    assert ["kubernetes"] == metadata["nearest_topics"]
    for part in ("'kubernetties'", "'kubernetes'", "list_topics"):
        assert part in metadata["message"]


async def test_a_part_of_a_topic_finds_the_topic(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold_decisions(ctx, chunks)
    found = await call_result(app, "get_decisions", topic="baking")
    assert ["bread baking"] == found["metadata"]["nearest_topics"]


async def test_only_topics_of_the_type_are_near(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold_decisions(ctx, chunks)
    nearest = {
        name: (await call_result(app, name, topic="sourdogh"))["metadata"]["nearest_topics"]
        for name in ("get_decisions", "get_patterns", "get_warnings")
    }
    assert "sourdough" not in nearest.pop("get_decisions")
    assert {"get_patterns": ["sourdough"], "get_warnings": ["sourdough"]} == nearest


async def test_where_no_topic_is_near_the_commonest_are_told(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", topic="xyzzy"))["metadata"]
    assert "kubernetes" in metadata["nearest_topics"]
    assert "None is like it; the commonest are " in metadata["message"]


async def test_a_topic_of_other_types_says_which_tools_have_something(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", topic="sourdough"))["metadata"]
    assert "nearest_topics" not in metadata
    expected = "There are no decisions about 'sourdough'; there are 1 by get_patterns, 1 by"
    assert metadata["message"].startswith(expected)


async def test_a_source_without_any_says_so(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await hold(ctx, of(chunks[0], decision(), "bread"), of(chunks[1], decision(), "rye"))
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        found = await call_result(app, "get_decisions", source_id="sailing", **arguments)
        assert [] == found["results"]
        assert "Leave source_id out" in found["metadata"]["message"]


@pytest.mark.parametrize("more", [{}, {"topic": "bread"}, {"query": "bread"}])
async def test_an_unknown_source_is_not_found(
    ctx: Context, app: App, chunks: list[Chunk], more: dict[str, Any]
) -> None:
    await hold_decisions(ctx, chunks)
    error = await call_error(app, "get_decisions", source_id="nowhere", **more)
    assert ("NOT_FOUND", {"source_id": "nowhere"}) == (error.code, error.details)
    assert "list_sources" in error.message


async def test_an_unknown_topic_costs_one_round_trip_more(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold(ctx, *(of(chunks[0], decision(f"d{n}"), f"topic {n}") for n in range(20)))
    nothing, itself, known, beginning = 1, 1, 20, 1
    assert (2, nothing + itself + known + beginning) == await cost(
        app, "get_decisions", topic="other"
    )

"""A lookup tool filters extractions by topic and by source, and suggests topics for an unknown one.

A topic is a label of extractions, such as "kubernetes". It has aliases, such as "k8s".
"""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.settings import Settings
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from tests.support.extractions import (
    collect_result_ids,
    make_decision,
    make_extraction,
    make_pattern,
    make_warning,
    measure_read,
    store_extractions,
)
from tests.support.tool_calls import call_error, call_result


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings that add an alias to the built-in ones."""
    return Settings(google_cloud_project=project, topic_aliases={"Brot": "bread baking"})


async def store_decisions(ctx: Context, chunks: list[Chunk]) -> dict[str, str]:
    """Store decisions about several topics; return their questions by id."""
    extractions = [
        make_extraction(chunks[0], make_decision("llm"), "large language models", "bread baking"),
        make_extraction(chunks[3], make_decision("llm at sea"), "large language models"),
        make_extraction(chunks[1], make_decision("k8s"), "kubernetes"),
        make_extraction(chunks[3], make_decision("k8s at sea"), "kubernetes", "bread baking"),
    ]
    await store_extractions(
        ctx,
        *extractions,
        make_extraction(chunks[2], make_pattern(), "kubernetes", "sourdough"),
        make_extraction(chunks[2], make_warning(), "sourdough"),
    )
    return {
        extraction.extraction_id: extraction.content.model_dump()["question"]
        for extraction in extractions
    }


@pytest.mark.requirement("000-AC4", "000-FR2", "000-T3.2", "000-T7.4", "000-X2")
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
async def test_filters_select_matching_extractions(
    ctx: Context, app: App, chunks: list[Chunk], arguments: dict[str, Any], expected: list[str]
) -> None:
    questions = await store_decisions(ctx, chunks)
    result = await call_result(app, "get_decisions", **arguments)
    assert sorted(questions[result_id] for result_id in collect_result_ids([result])) == expected


@pytest.mark.requirement("000-R2", "000-R5", "000-X1")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"topic": "K8s"}, {"query": "kubernetes", "search_type": "filtered"}),
        ({"topic": "Nowhere"}, {"query": "nowhere", "search_type": "filtered"}),
        ({"source_id": "baking"}, {"query": "all", "search_type": "filtered"}),
        ({"query": "sea"}, {"query": "all", "search_type": "semantic"}),
        ({"topic": "K8s", "query": "sea"}, {"query": "kubernetes", "search_type": "semantic"}),
    ],
)
async def test_metadata_has_the_topic_and_the_search_type(
    ctx: Context,
    app: App,
    chunks: list[Chunk],
    arguments: dict[str, Any],
    expected: dict[str, str],
) -> None:
    await store_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", **arguments))["metadata"]
    assert {name: metadata[name] for name in expected} == expected


@pytest.mark.requirement("000-AC4")
@pytest.mark.parametrize("query_arguments", [{}, {"query": "sea"}, {"source_id": "baking"}])
async def test_an_unknown_topic_suggests_the_nearest(
    ctx: Context, app: App, chunks: list[Chunk], query_arguments: dict[str, Any]
) -> None:
    await store_decisions(ctx, chunks)
    result = await call_result(app, "get_decisions", topic="Kubernetties", **query_arguments)
    metadata = result["metadata"]
    assert result["results"] == []
    assert metadata["sources_cited"] == []
    assert metadata["result_count"] == 0
    assert metadata["nearest_topics"] == ["kubernetes"]
    for part in ("'kubernetties'", "'kubernetes'", "list_topics"):
        assert part in metadata["message"]


async def test_a_part_of_a_topic_suggests_the_topic(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_decisions(ctx, chunks)
    result = await call_result(app, "get_decisions", topic="baking")
    assert result["metadata"]["nearest_topics"] == ["bread baking"]


async def test_only_topics_with_this_type_are_suggested(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_decisions(ctx, chunks)
    misspelled = "sourdogh"
    for name in ("get_patterns", "get_warnings"):
        result = await call_result(app, name, topic=misspelled)
        assert result["metadata"]["nearest_topics"] == ["sourdough"]
    result = await call_result(app, "get_decisions", topic=misspelled)
    assert "sourdough" not in result["metadata"]["nearest_topics"]


async def test_the_most_frequent_topics_are_suggested_in_doubt(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", topic="xyzzy"))["metadata"]
    assert "kubernetes" in metadata["nearest_topics"]
    assert "The most frequent are " in metadata["message"]


async def test_a_topic_of_other_types_names_their_tools(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_decisions(ctx, chunks)
    metadata = (await call_result(app, "get_decisions", topic="sourdough"))["metadata"]
    assert "nearest_topics" not in metadata
    beginning = "There are no decisions about 'sourdough', but 1 with get_patterns, 1 with"
    assert metadata["message"].startswith(beginning)


async def test_a_source_without_extractions_says_so(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread"),
        make_extraction(chunks[1], make_decision(), "rye"),
    )
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        result = await call_result(app, "get_decisions", source_id="sailing", **arguments)
        assert result["results"] == []
        assert "Leave source_id out" in result["metadata"]["message"]


@pytest.mark.parametrize("query_arguments", [{}, {"topic": "bread"}, {"query": "bread"}])
async def test_an_unknown_source_is_not_found(
    ctx: Context, app: App, chunks: list[Chunk], query_arguments: dict[str, Any]
) -> None:
    await store_decisions(ctx, chunks)
    error = await call_error(app, "get_decisions", source_id="nowhere", **query_arguments)
    assert error.code == "NOT_FOUND"
    assert error.details == {"source_id": "nowhere"}
    assert "list_sources" in error.message


async def test_an_unknown_topic_takes_one_more_round_trip(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(f"d{number}"), f"topic {number}")
        for number in range(20)
    ]
    await store_extractions(ctx, *extractions)
    round_trips, documents = await measure_read(app, "get_decisions", topic="other")
    assert round_trips == 2
    # An empty query counts as one document: that of extractions, and that of topics that begin
    # alike. The unknown topic itself and the 20 most frequent topics are read, too.
    assert documents == 1 + 1 + 1 + 20

"""A lookup tool filters extractions by topic and by source, and suggests topics for an unknown one.

A topic is a label of extractions, such as "kubernetes". It has aliases, such as "k8s".
"""

from typing import Any, NamedTuple

import pytest

from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.extractions import (
    collect_result_ids,
    make_decision,
    make_extraction,
    make_pattern,
    make_warning,
    store_extractions,
)
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.tool_calls import call_error, call_result


class Base(NamedTuple):
    """A base with decisions about several topics, and their questions by id."""

    app: App
    questions: dict[str, str]


@pytest.fixture(scope="module")
async def base(shared_apps: Apps) -> Base:
    """The settings add an alias to the built-in ones."""
    app = shared_apps(topic_aliases={"Brot": "bread baking"})
    ctx = make_job_context(app)
    chunks = await store_sources(ctx, BAKING, SAILING)
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
    questions = {
        extraction.extraction_id: extraction.content.model_dump()["question"]
        for extraction in extractions
    }
    return Base(app, questions)


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
    base: Base, arguments: dict[str, Any], expected: list[str]
) -> None:
    result = await call_result(base.app, "get_decisions", **arguments)
    assert sorted(base.questions[name] for name in collect_result_ids([result])) == expected


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
    base: Base, arguments: dict[str, Any], expected: dict[str, str]
) -> None:
    metadata = (await call_result(base.app, "get_decisions", **arguments))["metadata"]
    assert metadata.items() >= expected.items()


@pytest.mark.requirement("000-AC4")
@pytest.mark.parametrize(
    ("name", "topic", "nearest", "parts"),
    [
        (
            "get_decisions",
            "Kubernetties",
            ["kubernetes"],
            ("'kubernetties'", "'kubernetes'", "list_topics"),
        ),
        ("get_decisions", "baking", ["bread baking"], ()),
        ("get_patterns", "sourdogh", ["sourdough"], ()),
        ("get_warnings", "sourdogh", ["sourdough"], ()),
        # No topic of another type is suggested. In doubt, the most frequent ones are.
        (
            "get_decisions",
            "sourdogh",
            ["bread baking", "kubernetes", "large language models"],
            ("The most frequent are ",),
        ),
        # A topic of other types names their tools.
        (
            "get_decisions",
            "sourdough",
            ["none"],
            ("There are no decisions about 'sourdough', but 1 with get_patterns, 1 with",),
        ),
    ],
)
async def test_an_unknown_topic_suggests_the_nearest(
    base: Base, name: str, topic: str, nearest: list[str], parts: tuple[str, ...]
) -> None:
    for more in ({}, {"query": "sea"}, {"source_id": "baking"}):
        result = await call_result(base.app, name, topic=topic, **more)
        metadata = result["metadata"]
        assert (result["results"], metadata["sources_cited"], metadata["result_count"]) == (
            [],
            [],
            0,
        )
        assert sorted(metadata.get("nearest_topics", ["none"])) == nearest
        for part in parts:
            assert part in metadata["message"]


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


async def test_an_unknown_source_is_not_found(base: Base) -> None:
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        error = await call_error(base.app, "get_decisions", source_id="nowhere", **arguments)
        assert (error.code, error.details) == ("NOT_FOUND", {"source_id": "nowhere"})
        assert "list_sources" in error.message

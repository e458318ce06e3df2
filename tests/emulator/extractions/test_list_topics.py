"""`list_topics` returns the topics of extractions with their counts, page by page.

An extraction is a decision, pattern, warning or methodology that a language model found in a
passage, and a topic is its label.
"""

from typing import Any

from functions.tools.extractions.list_topics.tool import (
    MAX_WITH_PREFIX,
    NO_MATCH,
    NO_TOPICS,
    TRUNCATED,
)
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.knowledge import BAKING, set_fields, store_sources
from tests.support.tool_calls import call_all_pages, call_result


async def store_topics(ctx: Context) -> list[Chunk]:
    """Store topics: bread has four extractions, rye has two, and three topics have one."""
    chunks = await store_sources(ctx, BAKING)
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread", "rye"),
        make_extraction(chunks[0], make_decision("Which oven?"), "bread"),
        make_extraction(chunks[1], make_pattern(), "bread", "sourdough"),
        make_extraction(chunks[1], make_methodology(), "bread", "large language models"),
        make_extraction(chunks[2], make_warning(), "rye", "sour grapes"),
    )
    return chunks


async def list_names(app: App, **arguments: Any) -> list[str]:
    pages = await call_all_pages(app, "list_topics", **arguments)
    return [topic["name"] for page in pages for topic in page["topics"]]


async def test_a_topic_has_its_counts(ctx: Context, app: App) -> None:
    assert await call_result(app, "list_topics") == {"topics": [], "message": NO_TOPICS}
    await store_topics(ctx)
    counts = {"decisions": 2, "patterns": 1, "warnings": 0, "methodologies": 1}
    expected = {"topics": [{"name": "bread", **counts, "total": 4}]}
    assert await call_result(app, "list_topics", prefix="bread") == expected
    assert await call_result(app, "list_topics", prefix="x") == {"topics": [], "message": NO_MATCH}


async def test_prefix_and_kind_filter_topics(ctx: Context, app: App) -> None:
    """Without a prefix, frequent topics come first."""
    await store_topics(ctx)
    rare = ["large language models", "sour grapes", "sourdough"]
    for arguments, expected in (
        ({"kind": "decision"}, ["bread", "rye"]),
        ({"type": "warning"}, ["rye", "sour grapes"]),
        ({"prefix": "SOUR"}, ["sour grapes", "sourdough"]),
        ({"prefix": "sour", "kind": "warning"}, ["sour grapes"]),
        ({"prefix": "llm"}, ["large language models"]),
        ({"prefix": "Large-L"}, ["large language models"]),
        ({"prefix": "  "}, sorted(["bread", "rye", *rare])),
    ):
        for limit in (1, 300):
            assert sorted(await list_names(app, **arguments, limit=limit)) == expected, arguments
    for limit in (1, 2, 5, 300):
        names = await list_names(app, limit=limit)
        assert (names[:2], sorted(names[2:])) == (["bread", "rye"], rare)


async def test_topics_with_a_prefix_are_ordered_by_count_too(ctx: Context, app: App) -> None:
    for number in range(9):
        counts = {"decision": number + 1, "pattern": 20 - 2 * number}
        fields = {"name": f"t{number}", "counts": counts, "total": sum(counts.values())}
        await set_fields(ctx, f"topics/t{number}", fields)
    by_count = [f"t{number}" for number in range(9)]
    by_decisions = by_count[::-1]
    assert await list_names(app, prefix="t", kind="decision", limit=2) == by_decisions
    assert await list_names(app, prefix="t", limit=2) == by_count
    assert await list_names(app, limit=2) == by_count


async def test_a_topic_without_extractions_is_not_listed(ctx: Context, app: App) -> None:
    chunks = await store_topics(ctx)
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[2].chunk_id), [])
    for arguments in ({}, {"prefix": "sour"}, {"type": "warning"}):
        assert "sour grapes" not in await list_names(app, **arguments)
    assert await list_names(app, type="warning") == []


async def test_only_the_first_of_too_many_topics_are_listed(ctx: Context, app: App) -> None:
    client = ctx.database.connection.client
    batch = client.batch()
    for number in range(MAX_WITH_PREFIX):
        data = {"name": f"t{number:03}", "counts": {"decision": 1}, "total": 1}
        batch.set(client.document(f"topics/t{number:03}"), data)
    await batch.commit()
    assert "message" not in await call_result(app, "list_topics", prefix="t", limit=300)
    one_more = {"name": "t999", "counts": {"decision": 1}, "total": 1}
    await set_fields(ctx, "topics/t999", one_more)
    result = await call_result(app, "list_topics", prefix="t", limit=300)
    assert len(result["topics"]) == MAX_WITH_PREFIX
    assert result["message"] == TRUNCATED

"""A lookup tool with a query returns the extraction that answers it first."""

import itertools

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.model import Content, Step
from shared.runtime.context import App, Context
from tests.support.extractions import (
    collect_result_ids,
    make_decision,
    make_extraction,
    make_methodology,
    make_warning,
    store_extractions,
)
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.tool_calls import call_result


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    return local_embedder


CONTENTS: dict[str, Content] = {
    "storage": make_decision(
        "Should vectors live in a dedicated vector database or in the main database?",
        options=("a vector database", "an extension of the main database"),
    ),
    "hiring": make_decision(
        "Should the first hire be a generalist or a specialist?",
        options=("a generalist", "a specialist"),
    ),
    "cache": make_warning(
        "Cache stampede",
        description="When a popular entry expires, all requests compute it again at once.",
    ),
    "meetings": make_warning(
        "Status meetings", description="Teams that report upwards every day stop talking sideways."
    ),
    "postmortem": make_methodology(
        "Blameless postmortem",
        steps=(
            Step(order=1, title="Write down what happened", description="With care."),
            Step(order=2, title="Ask why the system allowed it", description="With care."),
        ),
    ),
    "interviews": make_methodology(
        "Customer interviews",
        steps=(
            Step(order=1, title="Recruit five users", description="With care."),
            Step(order=2, title="Ask for the last time they had to", description="With care."),
        ),
    ),
}


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("get_decisions", "where do we keep our embeddings?", ["storage", "hiring"]),
        ("get_decisions", "whom to recruit", ["hiring", "storage"]),
        ("get_warnings", "what happens to Redis after the TTL", ["cache", "meetings"]),
        ("get_methodologies", "learning from an outage", ["postmortem", "interviews"]),
    ],
)
async def test_the_extraction_that_answers_comes_first(
    ctx: Context, app: App, name: str, query: str, expected: list[str]
) -> None:
    chunks = itertools.cycle(await store_sources(ctx, BAKING, SAILING))
    extractions = {key: make_extraction(next(chunks), content) for key, content in CONTENTS.items()}
    await store_extractions(ctx, *extractions.values())
    result = await call_result(app, name, query=query)
    expected_ids = [extractions[key].extraction_id for key in expected]
    assert collect_result_ids([result]) == expected_ids
    nearest, other = result["results"]
    assert 1 >= nearest["similarity"] > other["similarity"] >= 0

"""Searches fall back to words, or fail, if the embedding provider returns an invalid vector."""

from collections.abc import Sequence

import pytest

from shared.ai.embedding import Purpose, Vector, unit_vector
from shared.runtime.context import App, Context
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.fakes.embedder import DIMENSION, WordEmbedder
from tests.support.knowledge import SAILING, store_sources
from tests.support.tool_calls import call_error, call_result


class InvalidQueryEmbedder(WordEmbedder):
    """An embedder that makes valid vectors of passages, but not of queries."""

    def __init__(self, numbers: Sequence[float]) -> None:
        super().__init__()
        self._numbers = numbers

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        if purpose is Purpose.QUERY:
            return [unit_vector(self._numbers, DIMENSION) for _ in texts]
        return await super().embed(texts, purpose)


@pytest.fixture(
    params=[
        pytest.param([0.0] * DIMENSION, id="zero vector"),
        pytest.param([1.0], id="wrong length"),
        pytest.param([float("nan")] * DIMENSION, id="not a number"),
    ]
)
def embedder(request: pytest.FixtureRequest) -> InvalidQueryEmbedder:
    return InvalidQueryEmbedder(request.param)


async def test_a_hybrid_search_falls_back_to_words_with_a_message(
    ctx: Context, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    _, anchor = await store_sources(ctx, SAILING)
    result = await call_result(app, "search_kb", query="anchor")
    assert [hit["chunk_id"] for hit in result["results"]] == [anchor.chunk_id]
    assert result["message"].endswith("Only words were searched.")
    assert "question_not_embedded" in capsys.readouterr().err
    error = await call_error(app, "search_kb", query="anchor", mode="semantic")
    assert error.code == "INTERNAL_ERROR"


async def test_a_search_of_extractions_is_an_internal_error(ctx: Context, app: App) -> None:
    [chunk, *_] = await store_sources(ctx, SAILING)
    await store_extractions(ctx, make_extraction(chunk, make_decision(), "sailing"))
    assert (await call_error(app, "get_decisions", query="anchor")).code == "INTERNAL_ERROR"
    # Without a query, no vector is needed.
    assert len((await call_result(app, "get_decisions"))["results"]) == 1

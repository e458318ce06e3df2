"""Clusters are named with Gemini's client, against a fake server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from functions.jobs.cluster.job import cluster
from shared.ai.vertex_generation import VertexGenerator
from shared.core.caller import Caller
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.vertex import HANG, MODEL, FakeVertex, Reply, make_error_reply
from tests.support.jobs import make_ample_budget
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_documents
from tests.support.themed_passages import THEMES, add_sources, make_themed_source


def make_name_answer(text: str) -> dict[str, Any]:
    """Return the model's answer to a prompt about a cluster."""
    [theme] = [name for name in THEMES if f"On {name}" in text]
    words = THEMES[theme].split()[:5]
    return {"name": f"Everything about {theme}", "description": "All of it.", "keywords": words}


@pytest.fixture
def vertex() -> Iterator[FakeVertex]:
    """The fake of Gemini."""
    with FakeVertex() as server:
        server.answers["ClusterName"] = make_name_answer
        yield server


@pytest.fixture
async def cloud(settings: Settings, vertex: FakeVertex) -> AsyncIterator[Context]:
    """The context of a run with Gemini, with pending chunks about five themes."""
    generator = VertexGenerator(
        project="p",
        location="europe-west1",
        model=MODEL,
        credentials=Credentials(token="test-token"),
        base_url=vertex.base_url,
        time_limit=50,
        breaker=CircuitBreaker("Vertex AI", pause=0),  # as if the next run began much later
    )
    app = App(settings, embedder=WordEmbedder(), generator=generator)
    ctx = app.context(Caller(), Meter())
    await add_sources(ctx, *map(make_themed_source, THEMES))
    yield ctx
    await generator.aclose()
    await app.aclose()


async def read_cluster_names(ctx: Context) -> dict[str, str]:
    """Return what gave each cluster its name, by this name."""
    clusters = (await read_documents(ctx, "clusters")).values()
    return {data["name"]: data["named_by"] for data in clusters}


async def test_each_cluster_costs_one_request(cloud: Context, vertex: FakeVertex) -> None:
    await cluster(cloud, make_ample_budget())
    assert await read_cluster_names(cloud) == {
        f"Everything about {theme}": MODEL for theme in THEMES
    }
    assert len(vertex.calls) == 5
    assert cloud.meter.input_tokens > 0 < cloud.meter.output_tokens


async def test_a_malformed_answer_leaves_the_word_based_name(
    cloud: Context, vertex: FakeVertex
) -> None:
    vertex.answers["ClusterName"] = lambda text: make_name_answer(text) | {"name": "Short"}
    report = await cluster(cloud, make_ample_budget())
    assert set((await read_cluster_names(cloud)).values()) == {"words alone"}
    assert len(report.failures) == 5
    assert report.counts["named"] == 0


@pytest.mark.usefixtures("instant_sleep")
async def test_an_outage_leaves_names_to_the_next_run(cloud: Context, vertex: FakeVertex) -> None:
    vertex.usual = make_error_reply(503, "UNAVAILABLE")
    report = await cluster(cloud, make_ample_budget())
    assert [failure.name for failure in report.failures] == ["names"]

    vertex.usual = Reply()
    await cluster(cloud, make_ample_budget())
    assert set((await read_cluster_names(cloud)).values()) == {MODEL}


async def test_a_hanging_request_delays_no_other(
    cloud: Context, vertex: FakeVertex, monotonic: MonotonicClock
) -> None:
    vertex.script.append(HANG)
    vertex.on_hang = partial(monotonic.advance_soon, 50)
    await cluster(cloud, make_ample_budget())
    await cluster(cloud, make_ample_budget())
    assert set((await read_cluster_names(cloud)).values()) == {MODEL}

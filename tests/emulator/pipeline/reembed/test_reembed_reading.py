"""Everything can be read during a migration to another embedding model, and after it.

`old_app` and `new_app` use the same database, with the old model and with the new one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.jobs.ingest_materials.job import ingest_materials
from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.get_cluster.tool import In as ClusterIn
from functions.tools.knowledge.get_cluster.tool import get_cluster
from functions.tools.knowledge.search_kb.tool import In as SearchIn
from functions.tools.knowledge.search_kb.tool import Out, search_kb
from shared.core.errors import Conflict, Unavailable
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support.clock import SettableClock
from tests.support.fakes.embedding_model import FakeEmbeddingModel
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.materials import MAST, TEXT, extract_error, extract_result
from tests.support.model_migration import (
    QUESTION,
    TASK,
    announce_migration,
    clear_vectors,
    complete_migration,
    get_model,
    make_new_model,
    make_previous_model,
    read_spaces,
    run_reembed,
)
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import call_result
from tests.support.traces import make_sample_trace

OpenApp = Callable[[FakeEmbeddingModel], App]


ANCHOR = "A good anchor and enough chain let the crew sleep through a gale."


async def search(app: App, mode: str = "hybrid") -> Out:
    """Search for the text of a passage of "Under Sail"."""
    arguments = SearchIn.model_validate({"query": ANCHOR, "mode": mode})
    return await search_kb(arguments, make_job_context(app))


async def test_a_migrated_base_is_searched_with_the_new_model_only(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    with pytest.raises(Conflict, match=r"embedded with words-1 .*carrel jobs run reembed"):
        await search(new_app)

    await complete_migration(new_app, clock)
    for mode in ("semantic", "hybrid"):
        out = await search(new_app, mode)
        assert out.results[0].title == "Under Sail"
        assert out.message == "Answers: 1; near: 2."

    with pytest.raises(Conflict, match=r"embedded with words-2 \(24 dimensions\)"):
        await search(old_app)


async def test_lexical_search_is_unchanged_during_a_migration(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    await announce_migration(new_app)
    for app in (old_app, new_app):
        await assert_lexical_only(app)
    await clear_vectors(new_app, clock)
    for app in (old_app, new_app):
        await assert_lexical_only(app)


async def assert_lexical_only(app: App) -> None:
    """Assert that a search by words works, and that the answer says that it is all there is."""
    out = await search(app)
    assert out.results[0].title == "Under Sail"
    assert out.message
    assert "The knowledge base is being embedded with another model right now." in out.message

    with pytest.raises(Unavailable, match="being embedded again, with words-2"):
        await search(app, "semantic")

    title = make_sample_trace(0)["title"]
    result = await call_result(app, "search_traces", None, query=title)
    assert result["results"][0]["title"] == title


async def test_a_process_of_the_old_model_searches_until_its_cache_expires(
    old_app: App, new_app: App
) -> None:
    """No vector is changed before every cached state of the embeddings has expired."""
    await search(old_app)
    await announce_migration(new_app)
    assert (await search(old_app, "semantic")).results
    assert (await read_spaces(old_app))["chunks"] == {("words-1", 16)}


@pytest.mark.usefixtures("old_app")
@pytest.mark.parametrize("model", [make_new_model(), FakeEmbeddingModel("words-1", 24)])
async def test_materials_with_new_vectors_are_searched(
    open_app: OpenApp, clock: SettableClock, model: FakeEmbeddingModel
) -> None:
    app = open_app(replace(model, embedding_counts=Counter()))
    await complete_migration(app, clock)
    report = await ingest_materials(make_job_context(app), make_ample_budget())
    assert report.counts == {"embedded": 4, "ready": 1}

    scopes: tuple[dict[str, Any], ...] = (
        {"document": content_id(TEXT)},
        {"scope": "task"},
        {"materials": TEXT},
    )
    for scope in scopes:
        out = await extract_result(app, QUESTION, task_id=TASK, **scope)
        assert out["status"] == "ready"
        assert out["contexts"][0] == MAST
        assert "message" not in out
    assert get_model(app).embedding_counts[MAST] == 1


@pytest.mark.usefixtures("old_app")
async def test_materials_are_embedded_by_the_next_call_about_them(
    new_app: App, clock: SettableClock
) -> None:
    await complete_migration(new_app, clock)
    error = await extract_error(new_app, QUESTION, task_id=TASK, scope="task")
    assert "still being embedded: 1." in error.message

    out = await extract_result(new_app, QUESTION, task_id=TASK, document=content_id(TEXT))
    assert out["status"] == "ready"
    assert out["contexts"][0] == MAST
    out = await extract_result(new_app, QUESTION, task_id=TASK, scope="task")
    assert out["contexts"][0] == MAST


async def test_clusters_and_chunks_are_readable_during_a_migration(
    old_app: App, new_app: App, clock: SettableClock
) -> None:
    chunk_ids = list(await read_app_documents(old_app, "chunks"))
    clusters = [make_cluster("dough", (0.0, 1.0)), make_cluster("boats", (0.6, 0.8))]
    await Clusters(make_job_context(old_app).database).put_clusters(clusters)

    steps = (announce_migration(new_app), clear_vectors(new_app, clock), run_reembed(new_app))
    for step in steps:
        await step
        for app in (old_app, new_app):
            result = await get_cluster(ClusterIn(cluster_id="dough"), make_job_context(app))
            assert [cluster.cluster_id for cluster in result.related_clusters] == ["boats"]
            chunk = await get_chunk(ChunkIn(chunk_id=chunk_ids[0]), make_job_context(app))
            assert chunk.chunk_id == chunk_ids[0]


def make_cluster(name: str, first_components: tuple[float, ...]) -> ClusterWithCentroid:
    """Return a cluster whose centroid has the old model's dimension; other components are 0."""
    zeros = (0.0,) * (make_previous_model().dimension - len(first_components))
    cluster = Cluster(name, name, "A topic.", ("one",))
    return ClusterWithCentroid(cluster, first_components + zeros)

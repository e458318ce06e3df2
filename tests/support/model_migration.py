"""Fills a knowledge base with all kinds of vectors, and migrates it to another embedding model.

The job `reembed` announces a migration first. It begins when all processes know of it, two minutes
later.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from functions.jobs.reembed.job import reembed
from shared.core.dates import Clock
from shared.core.errors import Unavailable
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Budget, Report
from tests.support.clock import SettableClock
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    store_extractions,
)
from tests.support.fakes.embedding_model import FakeEmbeddingModel
from tests.support.jobs import make_ample_budget, make_brief_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.materials import TEXT, extract_result
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_result
from tests.support.traces import make_sample_trace

TASK: Final = "boats"
"""The id of the workspace with materials."""
QUESTION: Final = "What was struck by lightning?"
COLLECTIONS: Final = ("chunks", "traces", "extractions")
"""The collections whose vectors the job migrates."""


def make_previous_model() -> FakeEmbeddingModel:
    """Return the model from which the knowledge base is migrated."""
    return FakeEmbeddingModel("words-1", 16)


def make_new_model() -> FakeEmbeddingModel:
    """Return the model to which the knowledge base is migrated."""
    return FakeEmbeddingModel("words-2", 24)


async def fill_knowledge_base(app: App) -> None:
    """Store chunks, extractions, traces and a workspace with materials, all with vectors."""
    ctx = make_job_context(app)
    chunks = await store_sources(ctx, BAKING, SAILING)
    await store_extractions(
        ctx, make_extraction(chunks[0], make_decision()), make_extraction(chunks[1], make_warning())
    )
    for number in range(3):
        await call_result(app, "contribute_trace", **make_sample_trace(number))
    await extract_result(app, QUESTION, materials=TEXT, task_id=TASK)


def make_expected_spaces(
    model: str | None, dimension: int
) -> dict[str, set[tuple[str | None, int]]]:
    """Return what `read_spaces` returns if all vectors have this model and dimension."""
    return {name: {(model, dimension)} for name in COLLECTIONS}


def make_app_opener(
    settings: Settings, clock: Clock, apps: list[App]
) -> Callable[[FakeEmbeddingModel], App]:
    """Return a function that opens an app with a model, and adds it to `apps` for closing."""

    def open_with_model(model: FakeEmbeddingModel) -> App:
        apps.append(App(settings, embedder=model, clock=clock))
        return apps[-1]

    return open_with_model


async def fill_and_forget_space(app: App) -> App:
    """Fill the knowledge base, and clear the cached embedding space, as if the process were new."""
    await fill_knowledge_base(app)
    app.connection.caches["embedding_space"].clear()
    return app


def get_model(app: App) -> FakeEmbeddingModel:
    """Return the embedding model of an app."""
    assert isinstance(app.embedder, FakeEmbeddingModel)
    return app.embedder


async def announce_migration(app: App) -> Report:
    """Announce a migration, without waiting until the job may begin it."""
    return await reembed(make_job_context(app), make_brief_budget())


async def run_reembed(app: App, budget: Budget | None = None) -> Report:
    """Run the job, by default until the migration is complete."""
    return await reembed(make_job_context(app), budget or make_ample_budget())


async def complete_migration(app: App, clock: SettableClock) -> Report:
    """Announce a migration, and complete it."""
    await announce_migration(app)
    clock.advance(minutes=2)
    return await run_reembed(app)


async def clear_vectors(app: App, clock: SettableClock) -> None:
    """Run a migration until all old vectors are deleted and no new one is stored."""
    model = get_model(app)
    model.is_down = True
    await announce_migration(app)
    clock.advance(minutes=2)
    with suppress(Unavailable):
        await run_reembed(app)
    model.is_down = False


async def read_spaces(app: App) -> dict[str, set[tuple[str | None, int]]]:
    """Return the pairs of model and dimension in each collection; 0 stands for a missing vector."""
    ctx = make_job_context(app)
    return {
        collection: {
            (data.get("embedding_model"), len(data.get("embedding", ())))
            for data in (await read_documents(ctx, collection)).values()
        }
        for collection in COLLECTIONS
    }

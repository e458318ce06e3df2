"""A migration to another model completes although it is killed at each commit."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.reembed.job import reembed
from infra.build.discovery import ROOT
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp, call_after
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import set_fields
from tests.support.model_migration import (
    announce_migration,
    fill_knowledge_base,
    make_new_model,
    make_previous_model,
    read_database,
    run_reembed,
)
from tests.support.stored_documents import read_snapshots

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder

pytestmark = pytest.mark.anyio

COMMAND: Final = [sys.executable, "-c", "from infra.cli.main import main; main()"]
KILLS: Final = 3
MOMENT: Final = 0.15
"""The maximum seconds from a sign of work to the kill."""
LONG_AGO: Final = datetime(2024, 5, 31, tzinfo=UTC)


class Killed(BaseException):
    """The exception that stands for a kill."""


async def die() -> None:
    raise Killed


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


async def make_migrating_base(project: str, clock: SettableClock) -> Settings:
    """Return a base of the old model whose migration was announced long enough ago."""
    settings = Settings(google_cloud_project=project)
    app = App(settings, embedder=make_previous_model(), clock=clock)
    await fill_knowledge_base(app)
    newer = App(settings, embedder=make_new_model(), clock=clock)
    await announce_migration(newer)
    await app.aclose()
    await newer.aclose()
    return settings


async def test_migration_killed_after_any_commit_completes(
    project: str, clock: SettableClock
) -> None:
    calm, wild = (
        await make_migrating_base(f"{project}-calm", clock),
        await make_migrating_base(project, clock),
    )
    clock.advance(minutes=2)
    undisturbed = App(calm, embedder=make_new_model(), clock=clock)
    await run_reembed(undisturbed)
    model, deaths = make_new_model(), 0
    while True:
        app = WatchedApp(wild, call_after(1, die), embedder=model, clock=clock)
        try:
            report = await reembed(make_job_context(app), make_ample_budget())
        except Killed:
            deaths += 1
        else:
            break
        finally:
            await app.aclose()
    assert report == Report()
    assert deaths > 12
    again = App(wild, embedder=model, clock=clock)
    assert drop_random_names(await read_database(undisturbed)) == drop_random_names(
        await read_database(again)
    )
    assert max(model.embedding_counts.values()) == 2  # the batch that was being embedded meanwhile
    await again.aclose()
    await undisturbed.aclose()


def drop_random_names(documents: dict[str, dict[str, object]]) -> list[str]:
    """Return the state without random names: those of traces and uploads."""
    chance = {"arrival", "facets", "contributor", "tally", "indexed"}
    return sorted(
        f"{path.split('/')[0]} {sorted((k, str(v)) for k, v in fields.items() if k not in chance)}"
        for path, fields in documents.items()
        if path.split("/")[0] in {"chunks", "traces", "extractions", "meta"}
    )


@contextmanager
def start_reembed(project: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `carrel jobs run reembed` in a process that ends with the block."""
    environment = {**os.environ, "GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "1"}
    command = [*COMMAND, "jobs", "run", "reembed"]
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
async def test_next_run_completes_a_killed_migration(
    project: str,
    local_embedder: LocalEmbedder,
    tmp_path: Path,
    kill_generator: random.Random,
) -> None:
    settings = Settings(google_cloud_project=project)
    older = App(settings, embedder=make_previous_model())
    await fill_knowledge_base(older)
    move_state = {
        "model": local_embedder.model,
        "dimension": local_embedder.dimension,
        "since": LONG_AGO,
    }
    change = {"moving_to": move_state | {"cleared": False, "places": {}}}
    await set_fields(make_job_context(older), "meta/embedding", change)
    log = tmp_path / "log"
    for _ in range(KILLS):
        before = await read_progress_sign(older)
        with start_reembed(project, log) as process:
            while process.poll() is None and before == await read_progress_sign(older):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=kill_generator.uniform(0, MOMENT))
    with start_reembed(project, log) as process:
        assert process.wait(timeout=300) == 0, log.read_text()
    newer = App(settings, embedder=local_embedder)
    contents_now = await read_database(newer)
    space = {"model": local_embedder.model, "dimension": local_embedder.dimension}
    assert contents_now["meta/embedding"] == space
    vectors = [
        fields for path, fields in contents_now.items() if path.startswith(("chunks/", "traces/"))
    ]
    assert {local_embedder.model} == {document["embedding_model"] for document in vectors}
    assert not [document for document in vectors if "embed" in document.get("pending", ())]
    assert isinstance(await run_job(EMBED, newer), Report)
    await older.aclose()
    await newer.aclose()


async def read_progress_sign(app: App) -> object:
    """Return a value that changes with each step of a migration."""
    return [
        target.update_time
        for target in (await read_snapshots(make_job_context(app), "meta")).values()
    ]

"""A migration to another embedding model is completed although it is killed again and again."""

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
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import set_fields
from tests.support.model_migration import (
    COLLECTIONS,
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
KILL_COUNT: Final = 3
MAX_KILL_DELAY: Final = 0.15
"""The maximum time from a step of a run to its kill, in seconds."""
LONG_AGO: Final = datetime(2024, 5, 31, tzinfo=UTC)
"""When the migration was announced, so that a run need not wait for work with the old model."""


class Killed(BaseException):
    """Ends a run, as if its process were killed. No `except Exception` catches it."""


async def die() -> None:
    raise Killed


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


async def make_migrating_base(project: str, clock: SettableClock) -> Settings:
    """Make a base of the old model, and announce its migration; return its settings."""
    settings = Settings(google_cloud_project=project)
    old_app = App(settings, embedder=make_previous_model(), clock=clock)
    await fill_knowledge_base(old_app)
    new_app = App(settings, embedder=make_new_model(), clock=clock)
    await announce_migration(new_app)
    await old_app.aclose()
    await new_app.aclose()
    return settings


async def test_a_migration_killed_after_any_commit_completes(
    project: str, clock: SettableClock
) -> None:
    """The result is the same as in another database, in which no run is killed."""
    undisturbed_settings = await make_migrating_base(f"{project}-undisturbed", clock)
    settings = await make_migrating_base(project, clock)
    clock.advance(minutes=2)
    undisturbed = App(undisturbed_settings, embedder=make_new_model(), clock=clock)
    await run_reembed(undisturbed)

    model, kills = make_new_model(), 0
    while True:
        app = WatchedApp(settings, call_after_commit(1, die), embedder=model, clock=clock)
        try:
            report = await reembed(make_job_context(app), make_ample_budget())
        except Killed:
            kills += 1
        else:
            break
        finally:
            await app.aclose()

    assert report == Report()
    assert kills > 8
    last_app = App(settings, embedder=model, clock=clock)
    expected = exclude_random_values(await read_database(undisturbed))
    assert exclude_random_values(await read_database(last_app)) == expected
    assert max(model.embedding_counts.values()) == 2  # texts of a batch that was lost with its run
    await last_app.aclose()
    await undisturbed.aclose()


def exclude_random_values(documents: dict[str, dict[str, object]]) -> list[str]:
    """Return documents as texts, sorted, without the random ids of traces and uploads."""
    random_fields = {"arrival", "facets", "contributor", "tally", "indexed"}
    texts = []
    for path, fields in documents.items():
        collection = path.split("/")[0]
        if collection in {"chunks", "traces", "extractions", "meta"}:
            values = {key: value for key, value in fields.items() if key not in random_fields}
            texts.append(
                f"{collection} {sorted((key, str(value)) for key, value in values.items())}"
            )
    return sorted(texts)


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
async def test_the_next_run_completes_a_killed_migration(
    project: str, local_embedder: LocalEmbedder, tmp_path: Path, kill_generator: random.Random
) -> None:
    """The runs are processes, and are killed shortly after a step."""
    settings = Settings(google_cloud_project=project)
    old_app = App(settings, embedder=make_previous_model())
    await fill_knowledge_base(old_app)
    new_space = {"model": local_embedder.model, "dimension": local_embedder.dimension}
    migration = new_space | {"since": LONG_AGO, "cleared": False}
    await set_fields(make_job_context(old_app), "meta/embedding", {"moving_to": migration})

    log = tmp_path / "log"
    for _ in range(KILL_COUNT):
        before = await read_step_times(old_app)
        with start_reembed(project, log) as process:
            while process.poll() is None and before == await read_step_times(old_app):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=kill_generator.uniform(0, MAX_KILL_DELAY))
    with start_reembed(project, log) as process:
        assert process.wait(timeout=300) == 0, log.read_text()

    new_app = App(settings, embedder=local_embedder)
    documents = await read_database(new_app)
    assert documents["meta/embedding"] == new_space
    embedded = [
        fields for path, fields in documents.items() if path.startswith(("chunks/", "traces/"))
    ]
    assert {fields["embedding_model"] for fields in embedded} == {local_embedder.model}
    assert not [fields for fields in embedded if "embed" in fields.get("pending", ())]
    assert isinstance(await run_job(EMBED, new_app), Report)
    await old_app.aclose()
    await new_app.aclose()


async def read_step_times(app: App) -> list[object]:
    """Return the update times of the documents that a migration changes, some in each step."""
    ctx = make_job_context(app)
    return [
        snapshot.update_time
        for collection in ("meta", *COLLECTIONS)
        for snapshot in (await read_snapshots(ctx, collection)).values()
    ]

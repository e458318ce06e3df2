"""`carrel jobs` runs jobs, shows their runs, and queues dead-lettered items again.

A dead letter is an item on which a job has given up, after five tries.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.build.discovery import ROOT, jobs
from infra.cli.main import main
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.queue import ChunkQueue
from shared.runtime.context import App, Context
from tests.support.knowledge import BAKING, chunk_source

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, project: str) -> None:
    """Use an empty database."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)


def run_carrel(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["jobs", *arguments])


def run_jobs(*names: str) -> subprocess.CompletedProcess[str]:
    """Run jobs in a process of their own, because they set how much of the log is output."""
    code = "from infra.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "jobs", "run", *names],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )


def run_in_database(project: str, work: Callable[[Context], Awaitable[Any]]) -> Any:
    """Call an asynchronous function with a context; return its result."""

    async def run_work() -> Any:
        app = App(Settings(google_cloud_project=project))
        try:
            return await work(app.context(Caller(), Meter()))
        finally:
            await app.aclose()

    return asyncio.run(run_work())


async def ingest_three_chunks(ctx: Context) -> None:
    """Ingest three chunks."""
    await Ingestion(ctx.database).save([chunk_source(BAKING)], NOW)


async def give_up_one_chunk(ctx: Context) -> None:
    """Ingest three chunks, one of which has failed five times."""
    await ingest_three_chunks(ctx)
    [chunk] = await ChunkQueue(ctx.database).load_pending("index", NOW, 1)
    await ChunkQueue(ctx.database).defer("index", replace(chunk, tries=4), "was refused", NOW)


def test_all_jobs_are_listed_with_their_schedule_and_last_run() -> None:
    result = run_carrel("list")
    assert result.exit_code == 0
    _, *lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [job.name for job in jobs()]
    assert all("never ran" in line for line in lines)
    assert all(job.schedule in line for job, line in zip(jobs(), lines, strict=True))


def test_a_run_prints_its_results_and_cost(project: str) -> None:
    run_in_database(project, ingest_three_chunks)
    result = run_jobs("index", "repair")
    assert result.returncode == 0, result.stderr
    assert "index: 3 indexed (" in result.stdout
    assert "documents read, " in result.stdout
    assert "repair: nothing to do (" in result.stdout


def test_show_prints_the_last_runs(project: str) -> None:
    run_in_database(project, ingest_three_chunks)
    run_jobs("index")
    run_jobs("index")
    result = run_carrel("show", "index")
    assert result.exit_code == 0
    heading, _, last_run, last_counts, _, _, earlier_counts = result.stdout.splitlines()[:7]
    assert heading.startswith(
        "index: Index words and facets. Schedule in the cloud: 5-59/15 * * * *"
    )
    assert last_run.partition("  ")[2].startswith("finished 20")
    assert last_counts.startswith("  nothing to do (")
    assert earlier_counts.startswith("  3 indexed (")
    assert "finished" in run_carrel("list").stdout


def test_show_reports_a_job_without_runs() -> None:
    assert "There is no record of a run in the last 30 days." in run_carrel("show", "index").stdout


def test_dead_letters_are_shown_and_retried(project: str) -> None:
    run_in_database(project, give_up_one_chunk)
    output = run_carrel("show", "index").stdout
    assert "Given up after five attempts: 1\n" in output
    assert ": was refused\n" in output
    assert "carrel jobs retry index" in output

    output = run_carrel("retry", "index").stdout
    assert output == "Queued 1 item. To process now: .venv/bin/carrel jobs run index\n"
    assert "index: 3 indexed (" in run_jobs("index").stdout
    assert "Given up" not in run_carrel("show", "index").stdout


def test_a_job_that_gives_nothing_up_cannot_retry() -> None:
    result = run_carrel("retry", "repair")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "The job repair has nothing to retry:" in result.stderr


async def make_card_by_another_model(ctx: Context) -> None:
    """Ingest three chunks, with one card by another model and one by a person."""
    await ingest_three_chunks(ctx)
    by_model, by_hand, _ = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
    cards = Cards(ctx.database)
    await cards.save({by_model: KnowledgeCard("Knead.")}, "m-1", NOW)
    await cards.save({by_hand: KnowledgeCard("Feed it.")}, BY_HAND, NOW)


def test_renew_queues_the_results_of_other_models(project: str) -> None:
    run_in_database(project, make_card_by_another_model)
    expected = "Queued 1 item. To process now: .venv/bin/carrel jobs run cards\n"
    assert run_carrel("renew", "cards").stdout == expected
    assert "There is nothing to renew." in run_carrel("renew", "cards").stdout
    assert "2 extractive" in run_jobs("cards").stdout


def test_the_error_of_renew_names_the_jobs_with_renewal() -> None:
    result = run_carrel("renew", "index")
    assert result.exit_code == 1
    assert result.stdout == ""
    message = "The results of the job index cannot be renewed, only those of: cards."
    assert message in result.stderr


@pytest.mark.parametrize("command", ["run", "show", "retry", "renew"])
def test_the_error_for_an_unknown_job_names_the_jobs(command: str) -> None:
    result = run_carrel(command, "nope")
    assert result.exit_code == 1
    assert result.stdout == ""
    names = ", ".join(job.name for job in jobs())
    assert f"There is no job nope. The jobs are: {names}." in result.stderr

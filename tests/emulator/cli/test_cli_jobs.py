"""`carrel jobs` runs jobs, shows their runs, and queues dead-lettered items again.

A dead letter is an item on which a job has given up, after five tries.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from infra.build.discovery import jobs
from shared.firestore.runs import RUN_RECORDS
from shared.knowledge.cards import BY_HAND
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.queue import ChunkQueue
from shared.runtime.context import Context
from shared.writer.ingestion import Ingestion
from tests.support.cards import save_cards
from tests.support.commands import expect_error, run_carrel, run_in_database
from tests.support.knowledge import BAKING, chunk_source

NOW = datetime.now(UTC)


async def ingest_three_chunks(ctx: Context) -> None:
    """Ingest three chunks."""
    await Ingestion(ctx.database).save([chunk_source(BAKING)], NOW)


async def give_up_one_chunk(ctx: Context) -> None:
    """Ingest three chunks, one of which has failed five times."""
    await ingest_three_chunks(ctx)
    [chunk] = await ChunkQueue(ctx.database).load_pending("index", NOW, 1)
    await ChunkQueue(ctx.database).defer("index", replace(chunk, tries=4), "was refused", NOW)


def test_all_jobs_are_listed_with_their_schedule_and_last_run() -> None:
    result = run_carrel("jobs", "list")
    assert result.exit_code == 0
    _, *lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [job.name for job in jobs()]
    assert all("never ran" in line for line in lines)
    assert all(job.schedule in line for job, line in zip(jobs(), lines, strict=True))


def test_a_run_prints_its_results_and_show_the_last_ones() -> None:
    no_run = f"There is no record of a run in the last {RUN_RECORDS.period}."
    assert no_run in run_carrel("jobs", "show", "index").stdout
    run_in_database(ingest_three_chunks)
    result = run_carrel("jobs", "run", "index", "repair")
    assert result.exit_code == 0, result.stderr
    assert "index: 3 indexed (" in result.stdout
    assert "documents read, " in result.stdout
    assert "repair: nothing to do (" in result.stdout

    run_carrel("jobs", "run", "index")
    result = run_carrel("jobs", "show", "index")
    assert result.exit_code == 0
    heading, _, last_run, last_counts, _, _, earlier_counts = result.stdout.splitlines()[:7]
    assert heading.startswith("index: Index words and facets. Schedule: 5-59/15 * * * *")
    assert last_run.partition("  ")[2].startswith("finished 20")
    assert last_counts.startswith("  nothing to do (")
    assert earlier_counts.startswith("  3 indexed (")
    assert "finished" in run_carrel("jobs", "list").stdout


def test_dead_letters_are_shown_and_retried() -> None:
    run_in_database(give_up_one_chunk)
    output = run_carrel("jobs", "show", "index").stdout
    assert "Given up after five attempts: 1\n" in output
    assert ": was refused\n" in output
    assert "carrel jobs retry index" in output

    output = run_carrel("jobs", "retry", "index").stdout
    assert output == "Queued 1 item. To process now: .venv/bin/carrel jobs run index\n"
    assert "index: 3 indexed (" in run_carrel("jobs", "run", "index").stdout
    assert "Given up" not in run_carrel("jobs", "show", "index").stdout


async def make_card_by_another_model(ctx: Context) -> None:
    """Ingest three chunks, with one card by another model and one by a person."""
    await ingest_three_chunks(ctx)
    by_model, by_hand, _ = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
    await save_cards(ctx, {by_model: KnowledgeCard("Knead.")}, "m-1", NOW)
    await save_cards(ctx, {by_hand: KnowledgeCard("Feed it.")}, BY_HAND, NOW)


def test_renew_queues_the_results_of_other_models() -> None:
    run_in_database(make_card_by_another_model)
    expected = "Queued 1 item. To process now: .venv/bin/carrel jobs run cards\n"
    assert run_carrel("jobs", "renew", "cards").stdout == expected
    assert "There is nothing to renew." in run_carrel("jobs", "renew", "cards").stdout
    assert "2 not needed" in run_carrel("jobs", "run", "cards").stdout


@pytest.mark.parametrize("command", ["run", "show", "retry", "renew"])
def test_the_error_for_an_unknown_job_names_the_jobs(command: str) -> None:
    names = ", ".join(job.name for job in jobs())
    message = f"There is no job nope. The jobs are: {names}."
    assert message in expect_error("jobs", command, "nope")


def test_what_cannot_be_retried_or_renewed_is_said() -> None:
    assert "The job repair has nothing to retry:" in expect_error("jobs", "retry", "repair")
    message = "The results of the job index cannot be renewed, only those of: cards."
    assert message in expect_error("jobs", "renew", "index")

"""Runs of the job `extract` that are killed leave what the next run completes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.extract.job import JOB
from infra.build.discovery import ROOT
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.knowledge.queue import ChunkQueue
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from tests.support.extract_job import (
    KEYS,
    ingest_books,
    make_book,
    make_reported_decision,
    make_reported_warning,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.knowledge.source import Source
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

PASSAGE_COUNT: Final = 30
LAST_COMMITS: Final = (1, 2, 2, 3)
"""The number of the commit after which each run is killed. Commit 1 takes the lease. Commit 2 of
the second run records the embedding model. Commits 2 and 3 of later runs store a batch of eight
chunks each."""
STORED_COUNT: Final = 3 * 8
"""The number of chunks that the killed runs store."""
NAMES: Final = "Ada Ben Cas Dan Eva Fay Gus Hal Ida Jon Kim Leo Mia Ned Oda Pia Ron Sue Tim Una"
PROGRAM: Final = """
import asyncio, os, signal, sys
from datetime import timedelta
from functions.jobs.extract.job import JOB
from shared.core.dates import utc_now
from shared.runtime.job import run_job
from shared.core.settings import Settings
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.emulator.extractions.test_extract_killed import make_model

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

number, hours = map(int, sys.argv[1:])
app = WatchedApp(
    Settings(),
    call_after_commit(number, die),
    clock=lambda: utc_now() + timedelta(hours=hours),
    embedder=WordEmbedder(),
    generator=make_model(),
)
asyncio.run(run_job(JOB, app))
"""
"""A program that runs the job some hours later, and kills itself after this number of commits."""


def repeats_previous(number: int) -> bool:
    """Return whether the passage with this number repeats the passage before."""
    return number % 3 == 2


def get_name(number: int) -> str:
    """Return the name that a passage mentions, which is the same if it repeats the one before."""
    return NAMES.split()[number - number // 3 - int(repeats_previous(number))]


def make_books() -> list[Source]:
    """Return books of one passage each. Every third passage repeats the one before."""
    books = []
    for number in range(PASSAGE_COUNT):
        beginning = "Once more: " if repeats_previous(number) else ""
        text = f"{beginning}{KEYS} This is what {get_name(number)} said of tables and keys."
        books.append(make_book(f"book{number:02}", text))
    return books


def make_model() -> ScriptedGenerator:
    """Return a model that finds a decision in each book, and a warning in each second one."""

    def find(text: str) -> dict[str, Any]:
        number = int(text[4:6])  # of the title "Book07"
        name = get_name(number)
        content = make_reported_decision()["content"] | {
            "question": f"{name} {name} {name} key?",
            "recommended_approach": f"{name} {name}",
        }
        findings = {"decisions": [make_reported_decision(content=content)], "warnings": []}
        if number % 2:
            content = {"title": f"{name}'s warning", "description": f"{name} warns of {name}"}
            warning = make_reported_warning("the world renames its codes", content=content)
            findings["warnings"].append(warning)
        return findings

    return ScriptedGenerator(find)


async def read_stored_state(ctx: Context) -> dict[str, Any]:
    """Return everything that the job writes, without times."""
    extractions = await read_documents(ctx, "extractions")
    for extraction in extractions.values():
        del extraction["extracted_at"]
    chunks = await read_documents(ctx, "chunks")
    chunk_states = {
        chunk_id: (chunk["extracted"], set(chunk["pending"]), chunk["tries"])
        for chunk_id, chunk in chunks.items()
    }
    return {
        "extractions": extractions,
        "chunks": chunk_states,
        "topics": await read_documents(ctx, "topics"),
        "deletions": await read_documents(ctx, "gone_extractions"),
    }


async def run_without_kill(settings: Settings, hours: int = 0) -> Report:
    """Run the job some hours later, and return the report."""
    app = App(
        settings,
        clock=lambda: utc_now() + timedelta(hours=hours),
        embedder=WordEmbedder(),
        generator=make_model(),
    )
    report = await run_job(JOB, app)
    await app.aclose()
    assert isinstance(report, Report)
    return report


def kill_run(settings: Settings, last_commit: int, hours: int) -> None:
    """Kill a run after a commit, some hours later, when the lease of the run before has expired."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(last_commit), str(hours)],
        cwd=ROOT,
        env={**os.environ, "GOOGLE_CLOUD_PROJECT": settings.google_cloud_project},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


async def test_a_killed_run_is_completed_by_the_next(settings: Settings, ctx: Context) -> None:
    other_settings = settings.model_copy(
        update={"google_cloud_project": f"{settings.google_cloud_project}-undisturbed"}
    )
    undisturbed_app = App(other_settings, embedder=WordEmbedder())
    undisturbed_ctx = undisturbed_app.context(Caller(), Meter())
    await ingest_books(undisturbed_ctx, *make_books())
    report = await run_without_kill(other_settings)
    assert report.counts["read"] == PASSAGE_COUNT
    assert report.counts["duplicates"] == PASSAGE_COUNT // 3

    await ingest_books(ctx, *make_books())
    for hours, last_commit in enumerate(LAST_COMMITS):
        kill_run(settings, last_commit, hours)
    pending_count = await ChunkQueue(ctx.database).count_pending("extract")
    assert pending_count == PASSAGE_COUNT - STORED_COUNT
    report = await run_without_kill(settings, len(LAST_COMMITS))
    assert report.counts["read"] == pending_count
    assert report.finished
    assert await read_stored_state(ctx) == await read_stored_state(undisturbed_ctx)
    await undisturbed_app.aclose()

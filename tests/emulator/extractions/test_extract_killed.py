"""Killed runs are completed by the next run, to the same state."""

from __future__ import annotations

import os
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

PASSAGES: Final = 30
COMMITS: Final = (1, 2, 2, 3)
"""The commit after which each run is killed: it takes the lease; it records the embedding model; it
stores the first eight chunks; it stores the next sixteen. The commit that takes the lease also
records that the run before was killed, except in the first run."""
NAMES: Final = "Ada Ben Cas Dan Eva Fay Gus Hal Ida Jon Kim Leo Mia Ned Oda Pia Ron Sue Tim Una"
KILLED_RUN: Final = """
import asyncio, os, signal, sys
from datetime import timedelta
from functions.jobs.extract.job import JOB
from shared.core.dates import utc_now
from shared.runtime.job import run_job
from shared.core.settings import Settings
from tests.support.commit_hooks import WatchedApp, call_after
from tests.support.fakes.embedder import WordEmbedder
from tests.emulator.extractions.test_extract_killed import make_model

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

number, hours = map(int, sys.argv[1:])
app = WatchedApp(
    Settings(),
    call_after(number, die),
    clock=lambda: utc_now() + timedelta(hours=hours),
    embedder=WordEmbedder(),
    generator=make_model(),
)
asyncio.run(run_job(JOB, app))
"""


def make_passages() -> list[Source]:
    """Return books of one passage each. Every third passage repeats the one before."""
    texts = [
        f"{'Once more: ' * (n % 3 == 2)}{KEYS} This is what {_get_word(n)} said of tables and keys."
        for n in range(PASSAGES)
    ]
    return [make_book(f"book{n:02}", text) for n, text in enumerate(texts)]


def make_model() -> ScriptedGenerator:
    """Return a model whose findings depend on the text."""

    def findings(text: str) -> dict[str, Any]:
        number = int(text[4:6])
        word = _get_word(number)
        content = make_reported_decision()["content"] | {
            "question": f"{word} {word} {word} key?",
            "recommended_approach": f"{word} {word}",
        }
        warning_content = {"title": f"{word}'s warning", "description": f"{word} warns of {word}"}
        warnings = [
            make_reported_warning("the world renames its codes", content=warning_content)
        ] * (number % 2)
        return {"decisions": [make_reported_decision(content=content)], "warnings": warnings}

    return ScriptedGenerator(findings)


async def read_stored_state(ctx: Context) -> dict[str, Any]:
    """Return everything that the job writes, without times."""
    extractions = await read_documents(ctx, "extractions")
    chunks = await read_documents(ctx, "chunks")
    return {
        "extractions": {
            name: {field: value for field, value in extraction.items() if field != "extracted_at"}
            for name, extraction in extractions.items()
        },
        "topics": await read_documents(ctx, "topics"),
        "chunks": {
            name: (chunk["extracted"], set(chunk["pending"]), chunk["tries"])
            for name, chunk in chunks.items()
        },
        "gone": await read_documents(ctx, "gone_extractions"),
    }


async def run_to_the_end(settings: Settings, hours: int = 0) -> Report:
    """Return a run that is not killed, some hours later."""
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


async def test_a_killed_run_is_completed_by_the_next(settings: Settings, ctx: Context) -> None:
    other_settings = settings.model_copy(
        update={"google_cloud_project": f"{settings.google_cloud_project}-undisturbed"}
    )
    undisturbed_app = App(other_settings, embedder=WordEmbedder())
    undisturbed = undisturbed_app.context(Caller(), Meter())
    for context in (ctx, undisturbed):
        await ingest_books(context, *make_passages())
    report = await run_to_the_end(other_settings)
    assert report.counts["read"] == PASSAGES
    assert report.counts["duplicates"] == 10
    for hours, commit in enumerate(COMMITS):
        kill_run(settings, commit, hours)
    pending = await ChunkQueue(ctx.database).count_pending("extract")
    assert pending == 6
    last = await run_to_the_end(settings, len(COMMITS))
    assert last.counts["read"] == pending
    assert last.finished
    assert await read_stored_state(undisturbed) == await read_stored_state(ctx)
    await undisturbed_app.aclose()


def kill_run(settings: Settings, commit: int, hours: int) -> None:
    """Kill a run after a commit. The hours let the lease of the last run expire."""
    process = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(commit), str(hours)],
        cwd=ROOT,
        env={**os.environ, "GOOGLE_CLOUD_PROJECT": settings.google_cloud_project},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -9, process.stderr.decode()


def _get_word(number: int) -> str:
    """Return a word for a passage. Every third passage has the word of the one before."""
    return NAMES.split()[number - number // 3 - (number % 3 == 2)]

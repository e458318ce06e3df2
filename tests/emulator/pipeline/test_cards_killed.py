"""A run of the cards job that is killed is completed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.cards.job import JOB
from infra.build.discovery import ROOT
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from tests.support.cards import (
    make_card_reply,
    make_cards_context,
    make_generator,
    make_source_of_notes,
    read_cards,
)
from tests.support.fakes.vertex import HANG, FakeVertex, Reply
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks

if TYPE_CHECKING:
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

PASSAGE_COUNT: Final = 20
MAX_WAIT: Final = 300.0
"""The time within which a child process must reach the hanging request, in seconds."""
PROGRAM: Final = """
import asyncio, sys
from google.oauth2.credentials import Credentials
from functions.jobs.cards.job import JOB
from shared.ai.vertex_generation import VertexGenerator
from shared.runtime.context import App
from shared.runtime.job import run_job
from shared.core.settings import Settings

generator = VertexGenerator(
    project="p", location="l", model="gemini-2.5-flash", base_url=sys.argv[1],
    credentials=Credentials(token="t"),
)
asyncio.run(run_job(JOB, App(Settings(), generator=generator)))
"""


async def read_chunks_without_times(ctx: Context) -> dict[str, Any]:
    """Return the fields of all chunks, by id, without the times at which they were written."""
    chunks = await read_chunks(ctx)
    for data in chunks.values():
        del data["created_at"], data["updated_at"]
        data["pending"] = set(data["pending"])
        data.get("knowledge_card", {}).pop("generated_at", None)
    return chunks


async def run_cards(settings: Settings, server: FakeVertex) -> Report:
    """Run the job to its end, a century later, when the lease of a killed run has expired."""
    generator = make_generator(server)
    a_century_later = make_cards_context(settings).clock() + timedelta(days=36_500)
    app = App(settings, generator=generator, clock=lambda: a_century_later)
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    await app.aclose()
    await generator.aclose()
    return report


def run_and_kill(settings: Settings, server: FakeVertex) -> None:
    """Run the job in another process until it waits for the model, and kill it."""
    request_hangs = threading.Event()
    server.on_hang = request_hangs.set
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.base_url],
        cwd=ROOT,
        env=os.environ | {"GOOGLE_CLOUD_PROJECT": settings.google_cloud_project},
        stderr=subprocess.DEVNULL,
    ) as process:
        is_waiting = request_hangs.wait(MAX_WAIT)
        process.kill()
    assert is_waiting


@pytest.mark.parametrize(
    ("answer_count", "card_count"), [pytest.param(3, 0, marks=pytest.mark.slow), (13, 8)]
)
async def test_the_next_run_completes_one_killed_during_a_model_call(
    settings: Settings, answer_count: int, card_count: int
) -> None:
    """The model answers some requests, and cards are stored in batches of eight.

    The result is the same as in another database, in which no run is killed.
    """
    undisturbed = Settings(google_cloud_project=f"{settings.google_cloud_project}-undisturbed")
    ctx = make_cards_context(settings)
    with FakeVertex() as server:
        server.answers["GeneratedCard"] = make_card_reply
        for target in (undisturbed, settings):
            await ingest_sources(make_cards_context(target), make_source_of_notes(PASSAGE_COUNT))
        await run_cards(undisturbed, server)

        server.script.extend([Reply()] * answer_count)
        server.usual = HANG
        run_and_kill(settings, server)
        assert len(await read_cards(ctx)) == card_count

        server.script.clear()
        server.usual = Reply()
        report = await run_cards(settings, server)

    assert report.counts["cards"] == PASSAGE_COUNT - card_count
    expected = await read_chunks_without_times(make_cards_context(undisturbed))
    assert await read_chunks_without_times(ctx) == expected

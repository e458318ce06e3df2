"""The next run of cards completes one that was killed."""

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
)
from tests.support.fakes.vertex import HANG, FakeVertex, Reply
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks

if TYPE_CHECKING:
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

PASSAGES: Final = 20
WAIT: Final = 300.0
RUN: Final = """
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


async def read_chunk_contents(ctx: Context) -> dict[str, Any]:
    """Return all chunks, without the times at which they were written."""
    stored = await read_chunks(ctx)
    for data in stored.values():
        del data["created_at"], data["updated_at"]
        data["pending"] = set(data["pending"])
        data.get("knowledge_card", {}).pop("generated_at", None)
    return stored


async def run(settings: Settings, server: FakeVertex) -> Report:
    """Run the job to its end, when the lease has expired."""
    generator = make_generator(server)
    later = make_cards_context(settings).clock() + timedelta(days=36_500)
    app = App(settings, generator=generator, clock=lambda: later)
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    await app.aclose()
    await generator.aclose()
    return report


def run_and_kill(settings: Settings, server: FakeVertex, environment: dict[str, str]) -> None:
    """Run the job in another process until it waits for the model, and kill it."""
    project = {"GOOGLE_CLOUD_PROJECT": settings.google_cloud_project}
    waiting = threading.Event()
    server.on_hang = waiting.set
    with subprocess.Popen(
        [sys.executable, "-c", RUN, server.base_url],
        cwd=ROOT,
        env={**environment, **project},
        stderr=subprocess.DEVNULL,
    ) as process:
        hangs = waiting.wait(WAIT)
        process.kill()
    assert hangs


@pytest.mark.parametrize("answered", [pytest.param(3, marks=pytest.mark.slow), 13])
async def test_next_run_completes_one_killed_during_a_model_call(
    settings: Settings, answered: int
) -> None:
    calm = Settings(google_cloud_project=f"{settings.google_cloud_project}-calm")
    with FakeVertex() as server:
        server.answers["GeneratedCard"] = make_card_reply
        for target in (calm, settings):
            await ingest_sources(make_cards_context(target), make_source_of_notes(PASSAGES))
        await run(calm, server)
        server.script.extend([Reply()] * answered)
        server.usual = HANG
        run_and_kill(settings, server, dict(os.environ))
        made = sum(
            "knowledge_card" in data
            for data in (await read_chunks(make_cards_context(settings))).values()
        )
        server.script.clear()
        server.usual = Reply()
        report = await run(settings, server)
    assert {3: 0, 13: 8}[answered] == made
    assert PASSAGES - made == report.counts["cards"]
    assert await read_chunk_contents(make_cards_context(calm)) == await read_chunk_contents(
        make_cards_context(settings)
    )

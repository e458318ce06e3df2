"""Runs that are killed repeatedly lead to the same database as runs that are not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore_v1.base_query import FieldFilter

from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from infra.build.discovery import ROOT
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import run_job
from tests.support.source_files import make_readwise_book, write_export
from tests.support.stored_documents import read_documents, read_leased_jobs, read_snapshots

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from shared.runtime.context import Context

    Sign = Callable[[Context], Awaitable[object]]

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS: Final = 3
"""The number of kills of ingest and of embed. Index is quick, so it is killed twice."""
MOMENT: Final = 0.2
"""The maximum seconds from a sign of work to the kill. The work takes much longer."""
CARREL: Final = (sys.executable, "-c", "from infra.cli.main import main; main()")
JOBS: Final = ("jobs", "run", "ingest", "embed", "index")
MOMENTS: Final = {"created_at", "updated_at"}
COLLECTIONS: Final = ("sources", "chunks", "lexicon", "facets", "meta", "leases")


def make_bookshelf(folder: Path) -> Path:
    """Return ninety small books, and one that takes several commits."""
    sizes = [0] * 45 + [600] + [0] * 45
    return write_export(
        folder, *(_make_numbered_book(number, size) for number, size in enumerate(sizes))
    )


def _make_numbered_book(number: int, size: int) -> dict[str, Any]:
    texts = ["Twice.", "Twice.", *(f"Thought {place}." for place in range(size))]
    day = "2024-05-31T16:41:53Z"
    highlights = [
        {"id": place, "text": text, "highlighted_at": day} for place, text in enumerate(texts)
    ]
    return make_readwise_book(user_book_id=number, title=f"Book {number}", highlights=highlights)


async def read_database_contents(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return all documents, without the times at which they were written."""
    return {
        f"{collection}/{name}": {key: replace_times(key, value) for key, value in data.items()}
        for collection in COLLECTIONS
        for name, data in (await read_documents(ctx, collection)).items()
    }


def replace_times(key: str, value: Any) -> Any:
    """Return a field's value with pending steps as names and times as a constant."""
    if key == "pending":
        return set(value)
    return key if key in MOMENTS else value


async def run_undisturbed(
    path: Path, project: str, embedder: LocalEmbedder
) -> dict[str, dict[str, Any]]:
    """Return the documents that the jobs make of `path` in a new project."""
    settings = Settings(google_cloud_project=project, ingest_path=str(path))
    app = App(settings, embedder=embedder)
    for job in (INGEST, EMBED, INDEX):
        await run_job(job, app)
    made = await read_database_contents(app.context(Caller(), Meter()))
    await app.aclose()
    return made


@contextmanager
def start_ingest(path: Path, project: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `carrel jobs run ...` in a process that ends with the block."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "1", "INGEST_PATH": str(path)}
    with (
        (path.parent / "log").open("wb") as log,
        subprocess.Popen(
            [*CARREL, *JOBS],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


async def run_and_kill(ctx: Context, path: Path, sign: Sign, delay: float) -> str:
    """Run until the sign changes, then for `delay` seconds. Return which job was killed."""
    before = await sign(ctx)
    with start_ingest(path, ctx.settings.google_cloud_project) as process:
        while process.poll() is None and before == await sign(ctx):
            pass
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
    (job,) = await read_leased_jobs(ctx)
    return job


def lease_sign(job: str) -> Sign:
    """Return a value that changes when the job begins to work."""

    async def sign(ctx: Context) -> object:
        lease = (await read_snapshots(ctx, "leases")).get(job)
        return lease.update_time if lease else None

    return sign


async def read_vector_sign(ctx: Context) -> object:
    """Return a value that changes when embed has stored its first vectors."""
    chunks = ctx.database.collection("chunks")
    embedded = chunks.where(filter=FieldFilter("embedding_model", "==", LocalEmbedder.model))
    return await ctx.database.count(embedded)


async def read_postings_sign(ctx: Context) -> object:
    """Return a value that changes when index has stored its first postings."""
    return (await read_documents(ctx, "meta")).get("lexicon", {}).get("documents")


async def test_the_next_run_completes_one_killed_at_any_moment(
    ctx: Context,
    project: str,
    local_embedder: LocalEmbedder,
    tmp_path: Path,
    kill_generator: random.Random,
) -> None:
    path = make_bookshelf(tmp_path)
    expected = await run_undisturbed(path, f"{project}-calm", local_embedder)
    kills: Counter[str] = Counter()
    for job, sign in (("ingest", lease_sign("ingest")), ("embed", read_vector_sign)):
        while kills[job] < KILLS:
            kills[await run_and_kill(ctx, path, sign, kill_generator.uniform(0, MOMENT))] += 1
    assert (
        await run_and_kill(ctx, path, lease_sign("index"), kill_generator.uniform(0, MOMENT / 2))
        == "index"
    )
    assert await run_and_kill(ctx, path, read_postings_sign, 0) == "index"
    with start_ingest(path, project) as process:
        assert process.wait(timeout=300) == 0, (path.parent / "log").read_text()
    assert await read_database_contents(ctx) == expected

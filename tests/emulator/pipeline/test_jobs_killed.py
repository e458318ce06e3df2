"""Runs of ingest, embed and index that are killed again and again make the same database as others.

A run is a process, and is killed shortly after a sign in the database that a job has begun to work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from infra.build.discovery import ROOT
from shared.ai.local_embedding import LocalEmbedder
from shared.core.settings import Settings
from shared.firestore.queries import Query
from shared.runtime.context import App
from shared.runtime.job import run_job
from tests.support.jobs import make_job_context
from tests.support.source_files import make_readwise_book, write_export
from tests.support.stored_documents import read_documents, read_leased_jobs, read_snapshots

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from shared.runtime.context import Context

    ReadSign = Callable[[Context], Awaitable[object]]
    """Reads a value that changes when a job begins to work."""

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILL_COUNT: Final = 3
"""The number of kills of ingest and of embed. Index is quick, so it is killed twice."""
MAX_KILL_DELAY: Final = 0.2
"""The maximum time from a sign of work to the kill, in seconds. The work takes much longer."""
CARREL: Final = (sys.executable, "-c", "from infra.cli.main import main; main()")
JOBS: Final = ("jobs", "run", "ingest", "embed", "index")
TIME_FIELDS: Final = {"created_at", "updated_at"}
COLLECTIONS: Final = ("sources", "chunks", "lexicon", "facets", "meta", "leases")


def write_bookshelf(folder: Path) -> Path:
    """Write an export with ninety small books, and among them one that takes several commits."""
    sizes = [0] * 45 + [600] + [0] * 45
    return write_export(folder, *(make_book(number, size) for number, size in enumerate(sizes)))


def make_book(number: int, size: int) -> dict[str, Any]:
    """Return a book with two equal highlights and `size` different ones."""
    texts = ["Twice.", "Twice.", *(f"Thought {index}." for index in range(size))]
    highlights = [
        {"id": index, "text": text, "highlighted_at": "2024-05-31T16:41:53Z"}
        for index, text in enumerate(texts)
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
    return key if key in TIME_FIELDS else value


async def run_undisturbed(
    path: Path, project: str, embedder: LocalEmbedder
) -> dict[str, dict[str, Any]]:
    """Return the documents that the jobs make of a path in a database of their own."""
    settings = Settings(google_cloud_project=project, ingest_path=str(path))
    app = App(settings, embedder=embedder)
    for job in (INGEST, EMBED, INDEX):
        await run_job(job, app)
    documents = await read_database_contents(make_job_context(app))
    await app.aclose()
    return documents


@contextmanager
def start_jobs(path: Path, project: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start `carrel jobs run ingest embed index` in a process that ends with the block."""
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


async def run_and_kill(ctx: Context, path: Path, read_sign: ReadSign, delay: float) -> str:
    """Run the jobs until the sign changes, then for `delay` seconds; return the killed job."""
    before = await read_sign(ctx)
    with start_jobs(path, ctx.settings.google_cloud_project) as process:
        while process.poll() is None and before == await read_sign(ctx):
            pass
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
    (job,) = await read_leased_jobs(ctx)
    return job


async def read_ingest_sign(ctx: Context) -> object:
    """Return a value that changes when ingest takes or renews its lease."""
    return await read_lease_time(ctx, "ingest")


async def read_index_sign(ctx: Context) -> object:
    """Return a value that changes when index takes or renews its lease."""
    return await read_lease_time(ctx, "index")


async def read_lease_time(ctx: Context, job: str) -> object:
    """Return the time at which a job last took or renewed its lease, if it has one."""
    lease = (await read_snapshots(ctx, "leases")).get(job)
    return lease.update_time if lease else None


async def read_vector_sign(ctx: Context) -> object:
    """Return a value that changes when embed has stored vectors."""
    embedded = Query("chunks").where("embedding_model", "==", LocalEmbedder.model)
    return await ctx.database.count(embedded)


async def read_postings_sign(ctx: Context) -> object:
    """Return a value that changes when index has stored postings."""
    return (await read_documents(ctx, "meta")).get("lexicon", {}).get("documents")


async def test_the_next_run_completes_one_killed_at_any_moment(
    ctx: Context,
    project: str,
    local_embedder: LocalEmbedder,
    tmp_path: Path,
    kill_generator: random.Random,
) -> None:
    path = write_bookshelf(tmp_path)
    expected = await run_undisturbed(path, f"{project}-undisturbed", local_embedder)

    kills: Counter[str] = Counter()
    for job, read_sign in (("ingest", read_ingest_sign), ("embed", read_vector_sign)):
        while kills[job] < KILL_COUNT:
            delay = kill_generator.uniform(0, MAX_KILL_DELAY)
            kills[await run_and_kill(ctx, path, read_sign, delay)] += 1
    delay = kill_generator.uniform(0, MAX_KILL_DELAY / 2)
    assert await run_and_kill(ctx, path, read_index_sign, delay) == "index"
    assert await run_and_kill(ctx, path, read_postings_sign, 0) == "index"

    with start_jobs(path, project) as process:
        assert process.wait(timeout=300) == 0, (path.parent / "log").read_text()
    assert await read_database_contents(ctx) == expected

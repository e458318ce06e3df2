"""Runs are killed again and again, and the database ends up as if nothing had happened."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore_v1.base_query import FieldFilter

from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.ingest.job import JOB as INGEST
from infra.deploy.discovery import ROOT
from shared.ai.local_embedding import LocalEmbedder
from shared.caller import Caller
from shared.deps import Backend
from shared.job import run_job
from shared.settings import Settings
from shared.store import Meter
from tests.jobs.documents import documents, leases, snapshots
from tests.jobs.files import book, export

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from shared.deps import Deps

    Sign = Callable[[Deps], Awaitable[object]]

pytestmark = pytest.mark.anyio

KILLS: Final = 3
"""In each of the two jobs."""
INGEST_COMMAND: Final = [sys.executable, "-c", "from infra.cli import main; main()", "ingest"]
MOMENTS: Final = {"created_at", "updated_at", "retry_at"}


def bookshelf(folder: Path) -> Path:
    """Eighty small books and, among them, one that takes several commits."""
    sizes = [3] * 40 + [420] + [3] * 40
    return export(folder, *(_book(number, size) for number, size in enumerate(sizes)))


def _book(number: int, size: int) -> dict[str, Any]:
    texts = [
        "Twice.",
        "Twice.",
        *(f"Thought {place} of book {number}." for place in range(2, size)),
    ]
    highlights = [{"id": place, "text": text} for place, text in enumerate(texts)]
    return book(user_book_id=number, title=f"Book {number}", highlights=highlights)


async def contents(deps: Deps) -> dict[str, dict[str, Any]]:
    """All that stands in the database, but for the times at which it was written."""
    return {
        f"{collection}/{name}": {key: data[key] for key in data.keys() - MOMENTS}
        for collection in ("sources", "chunks", "meta", "leases")
        for name, data in (await documents(deps, collection)).items()
    }


async def undisturbed(
    path: Path, project: str, embedder: LocalEmbedder
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """What the jobs make of `path` in a project of its own, and how long each of them takes."""
    settings = Settings(google_cloud_project=project, ingest_path=str(path))
    backend = Backend(settings, embedder=embedder)
    seconds = {}
    for job in (INGEST, EMBED):
        started = time.monotonic()
        await run_job(job, backend)
        seconds[job.name] = time.monotonic() - started
    made = await contents(backend.deps(Caller(), Meter()))
    await backend.aclose()
    return made, seconds


@contextmanager
def ingesting(path: Path, project: str) -> Iterator[subprocess.Popen[bytes]]:
    """`carrel ingest PATH` in a process of its own, which does not outlive the block."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "1"}
    with (
        (path.parent / "log").open("wb") as log,
        subprocess.Popen(
            [*INGEST_COMMAND, str(path)],
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


async def killed(deps: Deps, path: Path, sign: Sign, delay: float) -> str | None:
    """Run until the sign changes, and a moment longer; tell which job was killed, if one was."""
    before = await sign(deps)
    with ingesting(path, deps.settings.google_cloud_project) as process:
        while process.poll() is None and before == await sign(deps):
            pass
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
    held = await leases(deps)
    return held.pop() if held else None


async def lease_of_ingest(deps: Deps) -> object:
    """Changes when ingest starts to work."""
    lease = (await snapshots(deps, "leases")).get("ingest")
    return lease.update_time if lease else None


async def vectors(deps: Deps) -> object:
    """Changes when embed has stored its first vectors."""
    chunks = deps.store.database.collection("chunks")
    embedded = chunks.where(filter=FieldFilter("embedding_model", "==", LocalEmbedder.model))
    return await deps.store.database.count(embedded)


async def test_what_was_killed_at_any_moment_is_completed_by_the_next_run(
    deps: Deps, project: str, embedder: LocalEmbedder, tmp_path: Path
) -> None:
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(2**32)))
    chance = random.Random(seed)  # noqa: S311 - no secret
    path = bookshelf(tmp_path)
    expected, seconds = await undisturbed(path, f"{project}-calm", embedder)
    print(seconds, flush=True)
    kills: Counter[str | None] = Counter()
    for job, sign in (("ingest", lease_of_ingest), ("embed", vectors)):
        while kills[job] < KILLS:
            # Half a share each: with a whole one, the work could end before the last of the kills.
            delay = chance.uniform(0, seconds[job] / KILLS / 2)
            t0=time.monotonic(); k = await killed(deps, path, sign, delay); kills[k] += 1; print(k, round(delay,3), round(time.monotonic()-t0,2), len(await documents(deps,"chunks")), await vectors(deps), flush=True)
    with ingesting(path, project) as process:
        assert process.wait(timeout=60) == 0, (path.parent / "log").read_text()
    assert expected == await contents(deps), f"to repeat the moments: KILL_SEED={seed}"

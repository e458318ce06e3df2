"""Whether the work gets done: runs of jobs, and embedding."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from infra.doctor.check import Check, Finding, State, ok, wrong
from infra.doctor.deployed import schedule_of
from infra.doctor.local import embeds
from shared.core.dates import utc_now
from shared.firestore.runs import Runs, RunState

if TYPE_CHECKING:
    from infra.doctor.deployed import Deployed
    from shared.ai.embedding import Embedder
    from shared.firestore.runs import Run
    from shared.index.embedding_space import EmbeddingState

_ILL: Final = frozenset({RunState.STOPPED, RunState.DIED})


def _runs(deployed: Deployed) -> Finding:
    names = deployed.job_names()
    latest = dict(zip(names, asyncio.run(_latest(deployed, names)), strict=True))
    ill = [name for name, run in latest.items() if run and run.state in _ILL]
    waiting = [
        name for name, run in latest.items() if run is None and _is_still_to_run(deployed, name)
    ]
    idle = [name for name, run in latest.items() if run is None and name not in waiting]
    if ill or idle:
        then = [f"carrel --cloud jobs show {name}" for name in ill]
        then += [_run_now(deployed, name) for name in idle]
        said = [f"did not end well: {', '.join(ill)}"] * bool(ill)
        said += [f"never ran, or not for 30 days: {', '.join(idle)}"] * bool(idle)
        return wrong("; ".join(said), "\n".join(then))
    if waiting:
        return Finding(State.OPTIONAL, f"first run by its schedule: {', '.join(waiting)}")
    return ok(f"{len(names)} ran, and ended well")


def _is_still_to_run(deployed: Deployed, name: str) -> bool:
    """Whether Cloud Scheduler has yet to try a job for the first time.

    https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs
    """
    schedule = deployed.schedules.get(schedule_of(name), {})
    due = schedule.get("scheduleTime")
    return (
        due is not None
        and "lastAttemptTime" not in schedule
        and datetime.fromisoformat(due) > utc_now()
    )


def _run_now(deployed: Deployed, name: str) -> str:
    place = f"--project {deployed.deployment.project} --location {deployed.deployment.region}"
    return f"gcloud scheduler jobs run {schedule_of(name)} {place}"


async def _latest(deployed: Deployed, names: list[str]) -> list[Run | None]:
    from shared.core.meter import Meter
    from shared.firestore.database import Connection, Database

    settings = deployed.settings
    connection = Connection(settings.google_cloud_project, settings.firestore_database)
    try:
        runs = Runs(Database(connection, Meter()))
        found = await asyncio.gather(*(runs.latest(name, 1) for name in names))
        return [each[0] if each else None for each in found]
    finally:
        await connection.aclose()


def _stamp(deployed: Deployed) -> Finding:
    standing, embedder = asyncio.run(_standing(deployed))
    wanted = (embedder.model, embedder.dimension)
    if standing.move:
        model, _ = standing.move.to
        return wrong(f"the base is moving to {model}", "carrel --cloud jobs show reembed")
    if standing.space is None:
        return ok("nothing is embedded yet")
    if standing.space != wanted:
        said = f"the base is embedded with {standing.space}, the settings say {wanted}"
        return wrong(said, "carrel --cloud jobs run reembed")
    if embedder.dimension != deployed.deployment.embedding_dimension:
        indexed = deployed.deployment.embedding_dimension
        said = f"vectors have {embedder.dimension} numbers, and the indexes are for {indexed}"
        return wrong(said, "mend embedding_dimension in deployment.tfvars.json, then carrel deploy")
    return ok(f"{embedder.model}, {embedder.dimension} numbers, as the base is")


async def _standing(deployed: Deployed) -> tuple[EmbeddingState, Embedder]:
    from shared.core.meter import Meter
    from shared.firestore.database import Database
    from shared.index.embedding_space import EmbeddingSpace
    from shared.runtime.context import App

    app = App(deployed.settings)
    try:
        database = Database(app.connection, Meter())
        return await EmbeddingSpace(database).standing(), app.embedder
    finally:
        await app.aclose()


def _embedding(deployed: Deployed) -> Finding:
    settings = deployed.settings
    if settings.embedding_provider == "openai" and settings.openai_api_key is None:
        return Finding(State.OPTIONAL, "not tried: OPENAI_API_KEY is not in this environment")
    return asyncio.run(embeds(settings))


RUNS: Final = Check("runs of jobs", _runs)
STAMP: Final = Check("embedding model", _stamp)
EMBEDDING: Final = Check("embedding", _embedding)

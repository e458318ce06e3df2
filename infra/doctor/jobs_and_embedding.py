"""Checks of the last job runs and of the embedding model."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from infra.doctor.check import Check, CheckResult, CheckStatus, failed, passed
from infra.doctor.live_deployment import schedule_name
from infra.doctor.local import embed_sample
from shared.core.dates import utc_now
from shared.firestore.runs import Runs, RunState

if TYPE_CHECKING:
    from infra.doctor.live_deployment import LiveDeployment
    from shared.ai.embedding import Embedder
    from shared.firestore.runs import Run
    from shared.index.embedding_space import EmbeddingState

_FAILED_STATES: Final = frozenset({RunState.STOPPED, RunState.DIED})


def _check_runs(live: LiveDeployment) -> CheckResult:
    names = live.job_names()
    last_runs = dict(zip(names, asyncio.run(_last_runs(live, names)), strict=True))
    broken = [name for name, run in last_runs.items() if run and run.state in _FAILED_STATES]
    without_run = [name for name, run in last_runs.items() if run is None]
    waiting = [name for name in without_run if _awaits_first_run(live, name)]
    idle = [name for name in without_run if name not in waiting]
    if broken or idle:
        commands = [f"carrel --cloud jobs show {name}" for name in broken]
        commands += [_run_command(live, name) for name in idle]
        problems = [f"last run failed: {', '.join(broken)}"] * bool(broken)
        problems += [f"no run in the last 30 days: {', '.join(idle)}"] * bool(idle)
        return failed("; ".join(problems), "\n".join(commands))
    if waiting:
        message = f"waiting for their first scheduled run: {', '.join(waiting)}"
        return CheckResult(CheckStatus.OPTIONAL, message)
    return passed(f"the last runs of all {len(names)} jobs succeeded")


def _awaits_first_run(live: LiveDeployment, name: str) -> bool:
    """Return whether Cloud Scheduler has not yet run a job.

    https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs
    """
    schedule = live.schedules.get(schedule_name(name), {})
    due = schedule.get("scheduleTime")
    return (
        due is not None
        and "lastAttemptTime" not in schedule
        and datetime.fromisoformat(due) > utc_now()
    )


def _run_command(live: LiveDeployment, name: str) -> str:
    options = f"--project {live.deployment.project} --location {live.deployment.region}"
    return f"gcloud scheduler jobs run {schedule_name(name)} {options}"


async def _last_runs(live: LiveDeployment, names: list[str]) -> list[Run | None]:
    from shared.core.meter import Meter
    from shared.firestore.database import Connection, Database

    settings = live.settings
    connection = Connection(settings.google_cloud_project, settings.firestore_database)
    try:
        repository = Runs(Database(connection, Meter()))
        latest = await asyncio.gather(*(repository.latest(name, 1) for name in names))
        return [runs[0] if runs else None for runs in latest]
    finally:
        await connection.aclose()


def _check_embedding_space(live: LiveDeployment) -> CheckResult:
    state, embedder = asyncio.run(_embedding_state(live))
    configured = (embedder.model, embedder.dimension)
    if state.move:
        model, _ = state.move.target
        return failed(f"re-embedding to {model} is in progress", "carrel --cloud jobs show reembed")
    if state.space is None:
        return passed("nothing is embedded yet")
    if state.space != configured:
        message = f"texts are embedded with {state.space}, but the settings say {configured}"
        return failed(message, "carrel --cloud jobs run reembed")
    dimension = live.deployment.embedding_dimension
    if embedder.dimension != dimension:
        message = f"vectors have {embedder.dimension} dimensions, but the indexes {dimension}"
        command = "correct embedding_dimension in deployment.tfvars.json, then carrel deploy"
        return failed(message, command)
    return passed(f"{embedder.model} with {embedder.dimension} dimensions, as the stored vectors")


async def _embedding_state(live: LiveDeployment) -> tuple[EmbeddingState, Embedder]:
    from shared.core.meter import Meter
    from shared.firestore.database import Database
    from shared.index.embedding_space import EmbeddingSpace
    from shared.runtime.context import App

    app = App(live.settings)
    try:
        database = Database(app.connection, Meter())
        return await EmbeddingSpace(database).state(), app.embedder
    finally:
        await app.aclose()


def _check_embedding(live: LiveDeployment) -> CheckResult:
    settings = live.settings
    if settings.embedding_provider == "openai" and settings.openai_api_key is None:
        message = "not tested: OPENAI_API_KEY is not set in this environment"
        return CheckResult(CheckStatus.OPTIONAL, message)
    return asyncio.run(embed_sample(settings))


RUNS: Final = Check("job runs", _check_runs)
EMBEDDING_SPACE: Final = Check("embedding model", _check_embedding_space)
EMBEDDING: Final = Check("embedding", _check_embedding)

"""Checks the last job runs and the embedding model of a deployment.

Parts of Carrel are imported late, so that the first checks appear fast.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from infra.doctor.check import Check, CheckResult, CheckStatus, failed, passed
from infra.doctor.live_deployment import get_schedule_name
from infra.doctor.local import embed_sample
from shared.core.dates import utc_now
from shared.core.installation import carrel_deploy, carrel_on_deployment
from shared.firestore.runs import Runs, RunState

if TYPE_CHECKING:
    from infra.doctor.live_deployment import LiveDeployment
    from shared.ai.embedding import Embedder
    from shared.firestore.runs import Run
    from shared.index.embedding_space import EmbeddingState

_FAILED_STATES: Final = frozenset({RunState.STOPPED, RunState.DIED})
"""The states of a run that did not end as planned."""


def _check_runs(live: LiveDeployment) -> CheckResult:
    """Check that each scheduled job has run, and that its last run did not fail."""
    names = live.list_scheduled_jobs()
    last_runs = dict(zip(names, asyncio.run(_load_last_runs(live, names)), strict=True))
    failed_jobs = [name for name, run in last_runs.items() if run and run.state in _FAILED_STATES]
    jobs_without_run = [name for name, run in last_runs.items() if run is None]
    new_jobs = [name for name in jobs_without_run if _awaits_first_run(live, name)]
    idle_jobs = [name for name in jobs_without_run if name not in new_jobs]
    if failed_jobs or idle_jobs:
        commands = [carrel_on_deployment(f"jobs show {name}") for name in failed_jobs]
        commands += [_format_run_command(live, name) for name in idle_jobs]
        problems = [f"last run failed: {', '.join(failed_jobs)}"] * bool(failed_jobs)
        problems += [f"no run in the last 30 days: {', '.join(idle_jobs)}"] * bool(idle_jobs)
        return failed("; ".join(problems), "\n".join(commands))
    if new_jobs:
        message = f"waiting for their first scheduled run: {', '.join(new_jobs)}"
        return CheckResult(CheckStatus.OPTIONAL, message)
    return passed(f"the last runs of all {len(names)} jobs succeeded")


def _awaits_first_run(live: LiveDeployment, name: str) -> bool:
    """Return whether a job has not been scheduled to run before.

    https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs
    """
    schedule = live.schedules.get(get_schedule_name(name), {})
    next_run_at = schedule.get("scheduleTime")
    return (
        next_run_at is not None
        and "lastAttemptTime" not in schedule
        and datetime.fromisoformat(next_run_at) > utc_now()
    )


def _format_run_command(live: LiveDeployment, name: str) -> str:
    """Format the command that starts a job now."""
    options = f"--project {live.deployment.project} --location {live.deployment.region}"
    return f"gcloud scheduler jobs run {get_schedule_name(name)} {options}"


async def _load_last_runs(live: LiveDeployment, names: list[str]) -> list[Run | None]:
    """Load the last run of each job, or None if none is recorded."""
    from shared.core.meter import Meter
    from shared.core.settings import KNOWLEDGE_DATABASE
    from shared.firestore.database import Connection, Database

    settings = live.settings
    connection = Connection(settings.google_cloud_project, KNOWLEDGE_DATABASE)
    try:
        repository = Runs(Database(connection, Meter()))
        latest = await asyncio.gather(*(repository.load_latest(name, 1) for name in names))
        return [runs[0] if runs else None for runs in latest]
    finally:
        await connection.aclose()


def _check_embedding_space(live: LiveDeployment) -> CheckResult:
    """Check that the configured model is the one that computed the stored vectors."""
    state, embedder = asyncio.run(_load_embedding_state(live))
    configured = (embedder.model, embedder.dimension)
    if state.migration:
        model, _ = state.migration.target
        return failed(
            f"re-embedding to {model} is in progress", carrel_on_deployment("jobs show reembed")
        )
    if state.space is None:
        return passed("nothing is embedded yet")
    if state.space != configured:
        message = f"texts are embedded with {state.space}, but {configured} is configured"
        return failed(message, carrel_on_deployment("jobs run reembed"))
    dimension = live.deployment.embedding_dimension
    if embedder.dimension != dimension:
        message = f"vectors have {embedder.dimension} dimensions, but the indexes have {dimension}"
        command = f"correct embedding_dimension in deployment.tfvars.json, then {carrel_deploy()}"
        return failed(message, command)
    return passed(f"{embedder.model} with {embedder.dimension} dimensions, as the stored vectors")


async def _load_embedding_state(live: LiveDeployment) -> tuple[EmbeddingState, Embedder]:
    """Load with which model texts are embedded, and the configured embedder."""
    from shared.core.meter import Meter
    from shared.firestore.database import Database
    from shared.index.embedding_space import EmbeddingSpace
    from shared.runtime.context import App

    app = App(live.settings)
    try:
        database = Database(app.connection, Meter())
        return await EmbeddingSpace(database).load_state(), app.embedder
    finally:
        await app.aclose()


def _check_embedding(live: LiveDeployment) -> CheckResult:
    """Check that the configured model embeds a text, called from this machine."""
    settings = live.settings
    if settings.embedding_provider == "openai" and settings.openai_api_key is None:
        message = "not tested: OPENAI_API_KEY is not set in this environment"
        return CheckResult(CheckStatus.OPTIONAL, message)
    return asyncio.run(embed_sample(settings))


RUNS: Final = Check("job runs", _check_runs)
EMBEDDING_SPACE: Final = Check("embedding model", _check_embedding_space)
EMBEDDING: Final = Check("embedding", _check_embedding)

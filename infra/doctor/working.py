"""Whether the work gets done: runs of jobs, and embedding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from infra.doctor.check import Check, Finding, State, ok, wrong
from infra.doctor.local import embeds
from shared.store.runs import RunState

if TYPE_CHECKING:
    from infra.doctor.deployed import Deployed
    from shared.ai.embedding import Embedder
    from shared.store.embedding_space import Standing
    from shared.store.runs import Run

_ILL: Final = frozenset({RunState.STOPPED, RunState.DIED})


def _runs(deployed: Deployed) -> Finding:
    names = deployed.job_names()
    latest = asyncio.run(_latest(deployed, names))
    if ill := [run.job for run in latest if run and run.state in _ILL]:
        said = f"did not end well: {', '.join(ill)}"
        return wrong(said, f"carrel --cloud jobs show {ill[0]}")
    if idle := [name for name, run in zip(names, latest, strict=True) if run is None]:
        said = f"never ran, or not for 30 days: {', '.join(idle)}"
        job = f"carrel-{idle[0].replace('_', '-')}"
        place = f"--project {deployed.deployment.project} --location {deployed.deployment.region}"
        return wrong(said, f"gcloud scheduler jobs run {job} {place}")
    return ok(f"{len(names)} ran, and ended well")


async def _latest(deployed: Deployed, names: list[str]) -> list[Run | None]:
    from shared.store import Connection, Meter, Store

    settings = deployed.settings
    connection = Connection(settings.google_cloud_project, settings.firestore_database)
    try:
        runs = Store(connection, Meter()).runs
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


async def _standing(deployed: Deployed) -> tuple[Standing, Embedder]:
    from shared.deps import Backend
    from shared.store import Meter, Store

    backend = Backend(deployed.settings)
    try:
        store = Store(backend.connection, Meter())
        return await store.embedding_space.standing(), backend.embedder
    finally:
        await backend.aclose()


def _embedding(deployed: Deployed) -> Finding:
    settings = deployed.settings
    if settings.embedding_provider == "openai" and settings.openai_api_key is None:
        return Finding(State.OPTIONAL, "not tried: OPENAI_API_KEY is not in this environment")
    return asyncio.run(embeds(settings))


RUNS: Final = Check("runs of jobs", _runs)
STAMP: Final = Check("embedding model", _stamp)
EMBEDDING: Final = Check("embedding", _embedding)

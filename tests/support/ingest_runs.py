"""Runs the job `ingest`, and reads what it stored."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import SecretStr

from functions.jobs.ingest.job import ingest, ingest_confirmed
from functions.jobs.ingest.readwise.books import PendingBook
from functions.jobs.ingest.readwise.library import open_state
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.stored_documents import read_chunks, read_documents

_RUN_TIMES: Final = {"created_at", "updated_at", "deleted_at"}
"""The fields that contain the time of a run."""


def make_readwise_settings(readwise: FakeReadwise, project: str, **overrides: Any) -> Settings:
    """Return the settings of a deployment that ingests from this Readwise account."""
    fields = {"readwise_token": SecretStr(TOKEN), "readwise_url": readwise.base_url} | overrides
    return Settings(google_cloud_project=project, **fields)


async def run_ingest(ctx: Context) -> Report:
    """Run the job `ingest` once."""
    return await ingest(ctx, make_ample_budget())


async def measure_ingest(app: App) -> tuple[Report, Meter]:
    """Run the job `ingest` once, and return what it reports and costs."""
    ctx = make_job_context(app)
    return await run_ingest(ctx), ctx.meter


async def run_confirmed_ingest(ctx: Context) -> Report:
    """Run the job `ingest` once, as a person does who confirms that many sources are missing."""
    return await ingest_confirmed(ctx, make_ample_budget())


async def read_progress(ctx: Context) -> tuple[datetime | None, Mapping[str, PendingBook]]:
    """Return from when the next run lists changes of the account, and the books not read yet."""
    followed = open_state(ctx.database)
    await followed.load()
    return followed.fields.get("updated_after"), followed.items


async def read_texts(ctx: Context) -> dict[str, list[str]]:
    """Return the texts of the passages of each source, in order."""
    sources = await read_documents(ctx, "sources")
    chunks = (await read_chunks(ctx)).values()
    texts: dict[str, list[str]] = {source_id: [] for source_id in sources}
    for chunk in sorted(chunks, key=lambda chunk: int(chunk["position"])):
        texts[chunk["source_id"]].append(chunk["content"])
    return texts


async def read_ingested_documents(ctx: Context, *collections: str) -> dict[str, dict[str, Any]]:
    """Return sources, chunks and the documents of other collections, without times of runs.

    The documents are by path, such as `sources/walden`. Two runs that store the same return the
    same.
    """
    return {
        f"{collection}/{name}": {key: _hide_time(key, value) for key, value in data.items()}
        for collection in ("sources", "chunks", *collections)
        for name, data in (await read_documents(ctx, collection)).items()
    }


def _hide_time(key: str, value: Any) -> Any:
    """Return the value of a field; for a time of a run, the name of the field."""
    if key == "pending":  # a map from steps to the times when they are due
        return set(value)
    return key if key in _RUN_TIMES else value

"""Runs that import a fake Readwise library, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from functions.jobs.ingest.job import ingest, ingest_confirmed
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.readwise_sync import ReadwiseSync, SyncProgress
from tests.support.fakes.readwise import TOKEN
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_chunks, read_documents

if TYPE_CHECKING:
    from shared.runtime.context import App, Context
    from shared.runtime.job import Report
    from tests.support.fakes.readwise import FakeReadwise

_RUN_TIMES: Final = {"created_at", "updated_at", "deleted_at"}
"""These fields have the time of a run."""


def make_readwise_settings(readwise: FakeReadwise, project: str, **overrides: Any) -> Settings:
    """Return settings that follow this library."""
    fields = {"readwise_token": SecretStr(TOKEN), "readwise_url": readwise.base_url} | overrides
    return Settings(google_cloud_project=project, **fields)


async def run_ingest(app: App, meter: Meter | None = None, *, forgets_all: bool = False) -> Report:
    """Run ingest once."""
    context = app.context(Caller(), meter or Meter())
    run = ingest_confirmed if forgets_all else ingest
    return await run(context, make_ample_budget())


async def read_progress(ctx: Context) -> SyncProgress:
    """Return how far the knowledge base has followed the library."""
    return await ReadwiseSync(ctx.database).progress()


async def read_texts(ctx: Context) -> dict[str, list[str]]:
    """Return the texts of the passages of each source, in order."""
    in_order = sorted((await read_chunks(ctx)).values(), key=lambda chunk: int(chunk["position"]))
    texts: dict[str, list[str]] = {}
    for chunk in in_order:
        texts.setdefault(chunk["source_id"], []).append(chunk["content"])
    return {
        source_id: texts.get(source_id, []) for source_id in await read_documents(ctx, "sources")
    }


async def read_ingested_documents(ctx: Context, *collections: str) -> dict[str, dict[str, Any]]:
    """Return the documents that ingest writes, and these collections, without times of runs."""
    return {
        f"{collection}/{name}": {key: _drop_time(key, value) for key, value in data.items()}
        for collection in ("sources", "chunks", *collections)
        for name, data in (await read_documents(ctx, collection)).items()
    }


def _drop_time(key: str, value: Any) -> Any:
    if key == "pending":
        return set(value)
    return key if key in _RUN_TIMES else value

"""Folders that tests ingest repeatedly, and the sources that are stored then."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from functions.jobs.ingest.folder import FollowedFolder, ingest_confirmed
from functions.jobs.ingest.job import ingest
from shared.core.settings import Settings
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.jobs import make_ample_budget
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks, read_documents

NOTE_NUMBERS: Final = range(1, 7)


def make_settings(ctx: Context, **fields: Any) -> Settings:
    """Make settings for the same database."""
    return Settings(google_cloud_project=ctx.settings.google_cloud_project, **fields)


def make_vault(folder: Path) -> Path:
    """Make the folder `vault` with six notes, `Note 1.` to `Note 6.`."""
    for number in NOTE_NUMBERS:
        write_file(folder, f"vault/{number}.md", f"Note {number}.")
    return folder / "vault"


async def run_ingest(ctx: Context, path: Path, confirmed: frozenset[str] | None = None) -> Report:
    """Ingest a path; `confirmed` are the ids of missing sources that may be forgotten."""
    context = replace(ctx, settings=make_settings(ctx, ingest_path=str(path)))
    if confirmed is None:
        return await ingest(context, make_ample_budget())
    return await ingest_confirmed(str(path), confirmed, context, make_ample_budget())


async def ingest_cleanly(ctx: Context, path: Path) -> Report:
    """Ingest a path without failures."""
    report = await run_ingest(ctx, path)
    assert report.failures == []
    return report


async def compare(ctx: Context, path: Path, *, follows_readwise: bool = False) -> FollowedFolder:
    """Compare the files of a path with those that were ingested before, and write nothing."""
    folder = FollowedFolder(path, ctx.database, follows_readwise=follows_readwise)
    await folder.list_items()
    return folder


async def read_sources_by_text(ctx: Context) -> dict[str, str]:
    """Return the ids of the stored sources by their texts."""
    return {chunk["content"]: chunk["source_id"] for chunk in (await read_chunks(ctx)).values()}


async def read_source_ids(ctx: Context) -> set[str]:
    """Return the ids of the stored sources."""
    return set(await read_documents(ctx, "sources"))

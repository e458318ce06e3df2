"""Dates that a file gives without a time zone are days of `TIME_ZONE`, and are shown as such."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.get_source.tool import In as SourceIn
from functions.tools.knowledge.get_source.tool import get_source
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.knowledge.chunk_repository import Chunks
from shared.runtime.context import Context
from tests.support.ingest_runs import run_ingest
from tests.support.knowledge import index_all
from tests.support.source_files import write_file

WITH_OFFSET = ("night.md", "---\ndate: 2024-06-01T01:30+08:00\n---\nThe night watch.")
OF_A_DAY = ("day.md", "---\ndate: 2024-06-01\n---\nThe morning watch.")
BY_NAME = ("2024-06-01 Log.md", "The noon watch.")
CLIPPING = (
    "My Clippings.txt",
    (
        "Seamanship (Helm, Ann)\n- Your Highlight on Location 150-155 | Added on Friday, May 31,"
        " 2024 11:50:53 PM\n\nThe tide turns first along the shore.\n==========\n"
    ),
)
JSON_LINE = (
    "notes.jsonl",
    '{"id": "1", "text": "The dog watch.", "highlighted_at": "2024-06-01 00:10"}\n',
)
CSV = (
    "readwise-data.csv",
    (
        "Highlight,Book Title,Book Author,Amazon Book ID,Note,Color,Tags,Location Type,Location,"
        "Highlighted at,Document tags\n"
        "The first watch.,Watches,Ann Helm,,,,,order,1,2024-06-01 23:50,\n"
    ),
)


def set_zone(ctx: Context, zone: str) -> Context:
    """Return the context with another `TIME_ZONE`."""
    return replace(ctx, settings=ctx.settings.model_copy(update={"time_zone": zone}))


async def ingest_folder(ctx: Context) -> None:
    """Ingest the folder without failures, and index its passages."""
    assert (await run_ingest(ctx)).failures == []
    await index_all(ctx)


@pytest.mark.parametrize(
    ("file", "zone", "day"),
    [
        (WITH_OFFSET, "Asia/Singapore", "2024-06-01"),
        (WITH_OFFSET, "UTC", "2024-05-31"),
        (OF_A_DAY, "UTC", "2024-06-01"),
        (OF_A_DAY, "America/Los_Angeles", "2024-06-01"),
        (OF_A_DAY, "Asia/Tokyo", "2024-06-01"),
        (BY_NAME, "America/Los_Angeles", "2024-06-01"),
        (CLIPPING, "Asia/Tokyo", "2024-05-31"),
        (JSON_LINE, "Asia/Tokyo", "2024-06-01"),
        (CSV, "America/Los_Angeles", "2024-06-01"),
    ],
)
async def test_a_text_is_found_under_the_day_that_it_shows(
    ctx: Context, tmp_path: Path, file: tuple[str, str], zone: str, day: str
) -> None:
    there = set_zone(ctx, zone)
    write_file(tmp_path, *file)
    await ingest_folder(there)
    out = await search_kb(In(filters={"date_range": {"start": day, "end": day}}), there)
    [date] = [str(hit.date) for hit in out.results]
    assert date.endswith(f" {day}")
    [hit] = out.results
    assert (await get_chunk(ChunkIn(chunk_id=hit.chunk_id), there)).date == date
    source = await get_source(SourceIn(source_id=hit.source_id), there)
    assert [chunk.date for chunk in source.chunks] == [date]


async def test_a_hit_shows_the_day_in_the_zone_of_the_call(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, *WITH_OFFSET)
    await ingest_folder(ctx)
    for zone, day in (("Asia/Singapore", "2024-06-01"), ("America/Los_Angeles", "2024-05-31")):
        for query in (None, "night watch"):
            filters = {"date_range": {"start": day, "end": day}, "time_zone": zone}
            out = await search_kb(In(query=query, filters=filters, mode="lexical"), ctx)
            assert [hit.date for hit in out.results] == [f"written {day}"]


async def test_after_a_change_of_the_zone_ingest_dates_anew(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, *OF_A_DAY)
    write_file(tmp_path, *WITH_OFFSET)
    night = datetime(2024, 5, 31, 17, 30, tzinfo=UTC)
    midnights = {
        "UTC": datetime(2024, 6, 1, tzinfo=UTC),
        "Asia/Tokyo": night.replace(hour=15, minute=0),
    }
    for zone, midnight in midnights.items():
        await ingest_folder(set_zone(ctx, zone))
        chunks = await Chunks(ctx.database).load_newest(9)
        assert {chunk.title: chunk.dated_at for chunk in chunks} == {
            "day": midnight,
            "night": night,
        }

"""Ingest reads the dates and tags of notes, and updates stored notes when these change."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from functions.jobs.embed.job import embed
from shared.runtime.context import Context
from shared.writer.ingestion import Ingestion
from tests.support.clock import SettableClock
from tests.support.ingest_runs import run_ingest
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import chunk_source
from tests.support.source_files import read_sources, write_file
from tests.support.stored_documents import read_chunks_by_text

REEF = "Reef the mainsail early."
UPDATED = {"read": 1, "sources": 1, "updated": 1}
"""The counts of a run that updates a note of one passage."""


async def test_a_note_without_a_date_is_dated_by_its_first_file_time(
    ctx: Context, tmp_path: Path
) -> None:
    file_time = datetime(2019, 3, 2, 12, tzinfo=UTC)
    path = write_file(tmp_path, "note.md", REEF)
    os.utime(path, (0, file_time.timestamp()))
    await run_ingest(ctx)
    os.utime(path)  # sets the file's time to now, as a checkout does
    assert (await run_ingest(ctx)).counts == {"read": 1}
    assert (await read_chunks_by_text(ctx))[REEF]["dated_at"] == file_time

    for line, day in (("date: 2018-01-01", 1), ("date: 2018-01-02", 2), ("author: Ann", 2)):
        write_file(tmp_path, "note.md", f"---\n{line}\n---\n{REEF}")
        assert (await run_ingest(ctx)).counts == UPDATED
        stored = (await read_chunks_by_text(ctx))[REEF]
        assert stored["dated_at"] == datetime(2018, 1, day, tzinfo=UTC)


async def test_a_new_date_of_update_alone_writes_nothing(ctx: Context, tmp_path: Path) -> None:
    for day, counts in ((1, {"read": 1, "sources": 1, "created": 1}), (2, {"read": 1})):
        write_file(tmp_path, "note.md", f"---\nupdated: 2018-01-0{day}\n---\n{REEF}")
        assert (await run_ingest(ctx)).counts == counts
    stored = (await read_chunks_by_text(ctx))[REEF]
    assert stored["dated_at"] == datetime(2018, 1, 1, tzinfo=UTC)


async def test_inline_tags_added_to_stored_notes_are_not_embedded(
    ctx: Context, tmp_path: Path, clock: SettableClock
) -> None:
    """Earlier versions stored notes without their inline tags."""
    text = f"{REEF} #sailing"
    (source,) = read_sources(write_file(tmp_path, "note.md", text))
    await Ingestion(ctx.database).save([chunk_source(replace(source, tags=()))], ctx.clock())
    await embed(ctx, make_ample_budget())
    before = await read_chunks_by_text(ctx)
    assert "embed" not in before[text]["pending"]
    assert before[text]["tags"] == []
    clock.advance(minutes=1)

    assert (await run_ingest(ctx)).counts == UPDATED
    after = await read_chunks_by_text(ctx)
    assert after[text]["tags"] == ["sailing"]
    assert after[text]["pending"].keys() == before[text]["pending"].keys()
    assert after[text]["pending"]["index"] > before[text]["pending"]["index"]
    assert after[text]["embedding"] == before[text]["embedding"]

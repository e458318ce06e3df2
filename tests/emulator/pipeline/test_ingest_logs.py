"""Clippings and exports add highlights to a book, whichever file they come from."""

import json
import os
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from functions.jobs.ingest.job import ingest
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from infra.export.exporting import export_all
from shared.core.caller import Caller, Role
from shared.core.meter import Meter
from shared.knowledge.chunk_repository import UNDATED
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.followed_folder import ingest_cleanly, make_settings, read_source_ids, run_ingest
from tests.support.ingest_runs import read_texts
from tests.support.jobs import make_ample_budget
from tests.support.source_files import make_readwise_book, write_file
from tests.support.stored_documents import read_chunks, read_chunks_by_text, read_documents
from tests.support.tool_calls import call_result

BOOK_7 = derive_book_source_id("7")

OWNER: Final = Caller.of("anna", role=Role.OWNER)
FULL: Final = ("A channel is a promise.", "Dredgers are paid by the hour.", "Sand moves at night.")


def format_clippings(*entries: tuple[int, str], title: str = "Salt (Iyer, Meera)") -> str:
    """Return a Kindle's file with a highlight at each of these locations."""
    return "".join(
        f"{title}\n- Your Highlight on page {location // 10} | Location {location}-{location + 1} |"
        f" Added on Friday, May 31, 2024 4:41:{location % 60:02} PM\n\n{text}\n==========\n"
        for location, text in entries
    )


def make_highlights(*texts: str, first: int = 31, **fields: Any) -> list[dict[str, Any]]:
    """Return highlights with these texts, and with the ids 31, 32 ..."""
    return [
        {
            "id": number,
            "text": text,
            "location": number,
            "location_type": "location",
            "readwise_url": f"https://readwise.io/open/{number}",
            **fields,
        }
        for number, text in enumerate(texts, start=first)
    ]


def write_book(folder: Path, name: str, age: int, **fields: Any) -> Path:
    """Write an export of one book that was last changed this many seconds ago."""
    path = write_file(folder, name, json.dumps({"results": [make_readwise_book(**fields)]}))
    changed_at = 1_700_000_000 - age
    os.utime(path, (changed_at, changed_at))
    return path


async def read_passages(ctx: Context) -> list[str]:
    """Return the texts of the only source, in order."""
    [texts] = (await read_texts(ctx)).values()
    return texts


async def test_the_clippings_of_two_kindles_are_one_book(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "a/My Clippings.txt", format_clippings((30, "Iron."), (400, "Rust.")))
    write_file(tmp_path, "b/My Clippings.txt", format_clippings((50, "Bolts.")))
    report = await ingest_cleanly(ctx, tmp_path)
    assert report.warnings == []
    assert await read_passages(ctx) == ["Iron.", "Bolts.", "Rust."]


async def test_a_highlight_that_is_extended_stays_kept_out(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    file = write_file(tmp_path, "My Clippings.txt", format_clippings((30, "Iron"), (50, "Bolts.")))
    await ingest_cleanly(ctx, file)
    [chunk_id] = (name for name, c in (await read_chunks(ctx)).items() if c["content"] == "Iron")
    edit = {"chunk_id": chunk_id, "revision": 0, "tags": ["keep-out"]}
    await call_result(app, "edit_source", OWNER, **edit)
    for text in ("Iron rusts.", "Iron rusts at sea.", "Iron rusts."):
        write_file(tmp_path, "My Clippings.txt", format_clippings((30, text), (70, "Rust.")))
        await ingest_cleanly(ctx, file)
    tags = {text: chunk["tags"] for text, chunk in (await read_chunks_by_text(ctx)).items()}
    assert tags == {"Iron rusts at sea.": ["keep-out"], "Bolts.": [], "Rust.": []}


async def test_a_kindle_at_the_place_of_another_adds_to_it(ctx: Context, tmp_path: Path) -> None:
    file = write_file(tmp_path, "My Clippings.txt", format_clippings((30, "Iron."), (50, "Bolts.")))
    await ingest_cleanly(ctx, file)
    before = await read_chunks_by_text(ctx)
    other = format_clippings((400, "Rust.")) + format_clippings((7, "Ebb."), title="Tides (Holm)")
    write_file(tmp_path, "My Clippings.txt", other)
    report = await ingest_cleanly(ctx, file)
    assert (report.counts["deleted"], report.counts["passages kept"]) == (0, 2)
    after = await read_chunks_by_text(ctx)
    assert set(after) == {"Iron.", "Bolts.", "Rust.", "Ebb."}
    assert [after[text]["position"] for text in ("Iron.", "Bolts.", "Rust.")] == [1, 2, 3]
    for text in before:
        assert before[text]["created_at"] == after[text]["created_at"]
    write_file(tmp_path, "My Clippings.txt", format_clippings((30, "Iron.")))
    assert (await ingest_cleanly(ctx, file)).counts["sources kept"] == 1
    assert len(await read_source_ids(ctx)) == 2


async def test_a_highlight_of_an_unknown_date_has_none(ctx: Context, tmp_path: Path) -> None:
    """Else it would be the newest passage of all. It stays without a date in later runs."""
    entries = format_clippings((30, "Iron."), (50, "Bolts."))
    entries = entries.replace("Friday, May 31, 2024 4:41:30 PM", "the day of the storm")
    file = write_file(tmp_path, "My Clippings.txt", entries)
    report = (await run_ingest(ctx, file)).warnings
    assert "1 entry with a date that cannot be read; kept without a date" in report[0].reason
    write_file(tmp_path, "My Clippings.txt", entries.replace("Salt (", "SALT ("))
    await run_ingest(ctx, file)
    chunks = await read_chunks_by_text(ctx)
    assert chunks["Iron."]["dated_at"] == UNDATED
    assert chunks["Bolts."]["dated_at"] == chunks["Bolts."]["highlighted_at"]


async def test_an_incremental_export_adds_to_a_whole_one(ctx: Context, tmp_path: Path) -> None:
    """It does so beside the whole one, and in its place."""
    new = make_highlights("The new mark stands.", first=34)
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    write_book(tmp_path, "june.json", 0, highlights=new)
    await ingest_cleanly(ctx, tmp_path)
    assert await read_passages(ctx) == [*FULL, "The new mark stands."]
    (tmp_path / "june.json").unlink()
    write_book(tmp_path, "full.json", 0, highlights=new)
    write_book(tmp_path, "full.json", 0, highlights=[])
    await ingest_cleanly(ctx, tmp_path)
    assert await read_passages(ctx) == [*FULL, "The new mark stands."]


async def test_unchanged_logs_cost_a_read_each_and_no_write(
    ctx: Context, meter: Meter, tmp_path: Path
) -> None:
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    write_book(tmp_path, "june.json", 0, highlights=make_highlights("Edited.", first=32))
    await ingest_cleanly(ctx, tmp_path)
    documents = [await read_documents(ctx, name) for name in ("sources", "chunks")]
    assert await read_passages(ctx) == [FULL[0], "Edited.", FULL[2]]
    before = meter.documents_written
    assert (await ingest_cleanly(ctx, tmp_path)).counts == {"read": 2}
    assert meter.documents_written == before
    assert [await read_documents(ctx, name) for name in ("sources", "chunks")] == documents


async def test_a_highlight_that_a_log_names_as_deleted_is_removed(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    """It can be restored, and is not removed again."""
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    await ingest_cleanly(ctx, tmp_path)
    write_book(tmp_path, "june.json", 0, highlights=make_highlights(FULL[0], is_deleted=True))
    report = await ingest_cleanly(ctx, tmp_path)
    assert report.removed == {"passages": 1}
    assert report.note.startswith("Removed 1 passage, gone at the origin. To restore until ")
    assert await read_passages(ctx) == list(FULL[1:])

    [chunk_id] = await read_documents(ctx, "forgotten")
    await call_result(app, "forget", OWNER, chunk_id=chunk_id, forgotten=False)
    await ingest_cleanly(ctx, tmp_path)
    assert await read_passages(ctx) == list(FULL)


async def test_a_log_of_only_deletions_keeps_the_owners_title(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    await ingest_cleanly(ctx, tmp_path)
    edit = {"source_id": BOOK_7, "revision": 0, "title": "Mine"}
    await call_result(app, "edit_source", OWNER, **edit)
    write_book(tmp_path, "june.json", 0, highlights=make_highlights(FULL[0], is_deleted=True))
    assert (await ingest_cleanly(ctx, tmp_path)).removed == {"passages": 1}
    assert (await read_documents(ctx, "sources"))[BOOK_7]["title"] == "Mine"


async def test_an_older_export_adds_what_is_missing_and_changes_nothing(
    ctx: Context, tmp_path: Path
) -> None:
    """Whatever the times of the files are: a newer one may have been read before an older one."""
    [corrected] = make_highlights("A channel is kept.", updated_at="2026-05-02T00:00:00Z")
    [deleted] = make_highlights("Gone.", first=32, is_deleted=True)
    write_book(tmp_path, "since.json", 0, highlights=[corrected, deleted])
    await ingest_cleanly(ctx, tmp_path)
    assert await read_passages(ctx) == ["A channel is kept."]

    older = make_highlights("A chanel is kept.", *FULL[1:], updated_at="2026-05-01T00:00:00Z")
    write_book(tmp_path, "full.json", -60, highlights=older)
    await ingest_cleanly(ctx, tmp_path)
    assert await read_passages(ctx) == ["A channel is kept.", FULL[2]]


async def test_a_deletion_of_all_highlights_forgets_the_book(ctx: Context, tmp_path: Path) -> None:
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    await ingest_cleanly(ctx, tmp_path)
    write_book(tmp_path, "full.json", 0, highlights=make_highlights(*FULL, is_discard=True))
    report = await ingest_cleanly(ctx, tmp_path)
    assert report.removed == {"sources": 1, "passages": 3}
    assert await read_source_ids(ctx) == set()


async def test_a_restored_book_is_not_forgotten_again(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    write_book(tmp_path, "full.json", 100, highlights=make_highlights(*FULL))
    await ingest_cleanly(ctx, tmp_path)
    write_book(tmp_path, "june.json", 0, is_deleted=True, highlights=[])
    await ingest_cleanly(ctx, tmp_path)
    assert await read_source_ids(ctx) == set()
    await call_result(app, "forget", OWNER, source_id=BOOK_7, forgotten=False)
    for _ in range(2):
        await ingest_cleanly(ctx, tmp_path)
        assert await read_passages(ctx) == list(FULL)


async def sync_readwise(ctx: Context, readwise: FakeReadwise) -> Report:
    """Synchronize a library."""
    settings = make_settings(ctx, readwise_token=SecretStr(TOKEN), readwise_url=readwise.base_url)
    return await ingest(replace(ctx, settings=settings), make_ample_budget())


async def test_a_library_keeps_what_only_a_log_brought(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    """What it has itself, it removes when that is deleted there, unless it is restored."""
    write_book(tmp_path, "old.json", 0, highlights=make_highlights("Only here.", first=9))
    await ingest_cleanly(ctx, tmp_path)
    with FakeReadwise() as readwise:
        readwise.put_book(7, "Ebb.", "Flow.")
        await sync_readwise(ctx, readwise)
        assert set(await read_passages(ctx)) == {"Only here.", "Ebb.", "Flow."}
        assert (await read_chunks_by_text(ctx))["Ebb."].get("kept") is None

        readwise.advance(days=1)
        readwise.delete_highlight(7, 0)
        report = await sync_readwise(ctx, readwise)
        assert report.removed == {"passages": 1}
        assert set(await read_passages(ctx)) == {"Only here.", "Flow."}

        [chunk_id] = await read_documents(ctx, "forgotten")
        await call_result(app, "forget", OWNER, chunk_id=chunk_id, forgotten=False)
        readwise.advance(days=1)
        readwise.put_highlight(7, 2, "Sea.")
        await sync_readwise(ctx, readwise)
        assert set(await read_passages(ctx)) == {"Only here.", "Ebb.", "Flow.", "Sea."}


async def test_importing_an_export_keeps_newer_highlights(ctx: Context, tmp_path: Path) -> None:
    write_book(tmp_path / "logs", "full.json", 0, highlights=make_highlights(*FULL[:2]))
    await ingest_cleanly(ctx, tmp_path / "logs")
    exported = tmp_path / "exported"
    exported.mkdir()
    await export_all(ctx.database, exported, None, lambda _count: None, UTC)
    newer = make_highlights(FULL[2], first=33)
    write_book(tmp_path / "logs", "full.json", 0, highlights=newer)
    await ingest_cleanly(ctx, tmp_path / "logs")

    report = await ingest_cleanly(ctx, exported)
    assert report.counts["deleted"] == 0
    assert await read_passages(ctx) == list(FULL)

"""Ingest makes the database agree with the files, and writes only differences."""

import asyncio
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from functions.jobs.embed.job import embed
from functions.jobs.ingest.job import count, ingest
from functions.jobs.ingest.listing import read
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Report
from shared.writer.chunk_documents import FIRST_STEPS
from tests.support.ingest_runs import measure_ingest, run_ingest
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.source_files import (
    format_json_lines,
    make_readwise_book,
    write_export,
    write_file,
)
from tests.support.stored_documents import (
    read_chunks,
    read_chunks_by_text,
    read_documents,
    read_tombstones,
)

REEF = "Reef the mainsail early."
DOUGH = "Knead the dough well ..."
TESTS = "Flaky tests erode trust."


def write_book(folder: Path, *texts: str, is_linked: bool = False) -> None:
    """Write an export of a book with highlights at the locations 0, 1, 2 ...

    If they are linked, they have pages in Readwise, by which they are known.
    """
    highlights: list[dict[str, Any]] = [
        {"id": number, "location": number, "text": text}
        | ({"readwise_url": f"https://readwise.io/open/{number}"} if is_linked else {})
        for number, text in enumerate(texts)
    ]
    write_export(folder, make_readwise_book(highlights=highlights))


def write_notes(folder: Path, count: int) -> None:
    """Write a file of JSON Lines with this many records."""
    records = [{"id": str(number), "text": f"Note {number}."} for number in range(count)]
    write_file(folder, "notes.jsonl", format_json_lines(*records))


async def ingest_and_finish_all_steps(ctx: Context) -> dict[str, dict[str, Any]]:
    """Ingest and embed, and clear other pending steps, as if all jobs had run; read the chunks."""
    await run_ingest(ctx)
    await embed(ctx, make_ample_budget())
    for chunk_id in await read_chunks(ctx):
        chunk = ctx.database.connection.client.document(f"chunks/{chunk_id}")
        await chunk.update({"pending": {}})
    return await read_chunks_by_text(ctx)


async def test_a_highlight_becomes_a_chunk_with_all_fields(
    ctx: Context, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    highlight = {
        "id": 10,
        "text": REEF,
        "highlighted_at": "2024-05-31T16:41:53Z",
        "url": "https://example.com/sails#10",
        "readwise_url": "https://readwise.io/open/10",
        "tags": [{"name": "safety"}],
    }
    fields = {
        "author": "Ann Helm",
        "source": "kindle",
        "category": "books",
        "book_tags": [{"name": "sea"}],
        "source_url": "https://example.com/sails",
        "readwise_url": "https://readwise.io/bookreview/7",
    }
    write_export(tmp_path, make_readwise_book(**fields, title="Sails", highlights=[highlight]))
    await run_ingest(ctx)
    assert {name: await read_documents(ctx, name) for name in ("sources", "chunks")} == snapshot


async def test_chunks_are_exact_slices_of_their_source_in_order(
    ctx: Context, tmp_path: Path
) -> None:
    paragraphs = (f"Paragraph {number} says \U0001f600 this. " * 40 for number in range(30))
    write_file(tmp_path, "long.md", "# Long\n\n" + "\n\n".join(paragraphs))
    write_book(tmp_path, REEF, DOUGH)
    await run_ingest(ctx)

    all_chunks = list((await read_chunks(ctx)).values())
    assert len(all_chunks) > 10
    for source in read(tmp_path):
        assert isinstance(source, Source)
        chunks = [chunk for chunk in all_chunks if chunk["source_id"] == source.source_id]
        for chunk in chunks:
            assert source.text[chunk["start"] : chunk["end"]] == chunk["content"]
            assert chunk["total"] == len(chunks)
        positions = sorted(chunk["position"] for chunk in chunks)
        assert positions == list(range(1, len(chunks) + 1))


async def test_an_unchanged_source_costs_one_read_and_no_write(app: App, tmp_path: Path) -> None:
    write_notes(tmp_path, 40)
    await measure_ingest(app)
    report, meter = await measure_ingest(app)
    assert report.counts == {"read": 40}
    assert meter.documents_read == 42  # 40 sources, the due links, and the state of the folder
    assert meter.documents_written == 0  # a later run would write when the folder was read
    assert meter.round_trips == 4


async def test_only_an_edited_highlight_is_embedded_again(ctx: Context, tmp_path: Path) -> None:
    write_book(tmp_path, REEF, DOUGH, TESTS, is_linked=True)
    before = await ingest_and_finish_all_steps(ctx)

    edited = DOUGH.replace("well", "long")
    write_book(tmp_path, REEF, edited, TESTS, is_linked=True)
    report = await run_ingest(ctx)

    after = await read_chunks_by_text(ctx)
    assert report.counts == {"read": 1, "sources": 1, "created": 1, "deleted": 1}
    assert set(after.pop(edited)["pending"]) == set(FIRST_STEPS)
    assert after == {text: before[text] for text in (REEF, TESTS)}


async def test_chunks_moved_by_an_edit_keep_their_vectors(ctx: Context, tmp_path: Path) -> None:
    write_book(tmp_path, REEF, TESTS)
    before = await ingest_and_finish_all_steps(ctx)
    write_book(tmp_path, "Something new.", REEF, TESTS)
    await run_ingest(ctx)

    after = await read_chunks_by_text(ctx)
    assert [after[text]["position"] for text in (REEF, TESTS)] == [2, 3]
    for text in (REEF, TESTS):
        assert after[text]["start"] == before[text]["start"] + len("Something new.\n\n")
        assert after[text]["embedding"] == before[text]["embedding"]
        assert set(after[text]["pending"]) == {"index"}


async def test_a_book_that_stays_deleted_is_removed_once(
    app: App, ctx: Context, tmp_path: Path
) -> None:
    write_export(tmp_path, make_readwise_book(), make_readwise_book(user_book_id=8))
    await run_ingest(ctx)
    deleted = make_readwise_book(is_deleted=True, highlights=[])
    write_export(tmp_path, deleted, make_readwise_book(user_book_id=8))
    await run_ingest(ctx)
    report, meter = await measure_ingest(app)
    assert report.counts == {"read": 2}
    assert meter.documents_written == 0
    assert set(await read_documents(ctx, "sources")) == {derive_book_source_id("8")}
    assert len(await read_tombstones(ctx)) == 1


async def test_unreadable_items_are_reported_and_others_are_stored(
    ctx: Context, tmp_path: Path
) -> None:
    """An item of which a part is stored is a warning."""
    write_file(tmp_path, "a.md", f"---\ndate: soon\n---\n{REEF}")
    write_file(tmp_path, "b.md", b"caf\0")
    book = make_readwise_book(
        user_book_id=8, highlights=[{"text": DOUGH, "highlighted_at": "later"}]
    )
    write_export(tmp_path, make_readwise_book(highlights=None), book)
    reason = "is not an ISO 8601 date such as 2024-05-31; field ignored"
    report = await run_ingest(ctx)
    assert report.failures == [
        Failure("b.md", "is not text: there is a NUL byte at position 3"),
        Failure("export.json: Walden", "has no `highlights`"),
    ]
    assert report.warnings == [
        Failure("a.md", f"line 2: date: “soon” {reason}"),
        Failure("export.json: Walden", f"highlights.0.highlighted_at: “later” {reason}"),
    ]
    assert report.finished
    assert report.counts["read"] == 2
    assert set(await read_chunks_by_text(ctx)) == {REEF, DOUGH}


async def test_unsupported_files_are_counted_by_suffix(ctx: Context, tmp_path: Path) -> None:
    unsupported = ["a.pptx", "b.PPTX", "x/c.pptx", "d.xlsx", "e.xlsx", "README", "2. No title"]
    hidden = [".hidden.pptx", ".obsidian/plugins/f.css"]
    for name in ["1. A title.md", *unsupported, *hidden]:
        write_file(tmp_path, name, REEF)
    report = await run_ingest(ctx)
    assert report.note == "Not read: 3 .pptx, 2 .xlsx, 2 without an extension."
    assert report.counts["read"] == 1
    assert report.failures == []


async def test_many_long_tags_fit_into_commits(ctx: Context, tmp_path: Path) -> None:
    tags = [f"{number} {'t' * 1000}" for number in range(40)]
    highlights = [{"id": number, "text": f"Highlight {number}."} for number in range(150)]
    write_export(tmp_path, make_readwise_book(book_tags=tags, highlights=highlights))
    async with asyncio.timeout(120):  # Firestore's client retries a refused commit for a minute
        await run_ingest(ctx)
    assert len(await read_chunks_by_text(ctx)) == 150


async def test_a_run_out_of_time_keeps_the_sources_it_stored(ctx: Context, tmp_path: Path) -> None:
    write_notes(tmp_path, 40)
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert await read_documents(ctx, "chunks") == {}
    report = await ingest(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["created"] == 30
    report = await ingest(ctx, make_ample_budget())
    assert report.counts == {"read": 40, "sources": 10, "created": 10}


async def test_the_reported_progress_ends_at_the_total(ctx: Context, tmp_path: Path) -> None:
    write_notes(tmp_path, 35)
    write_file(tmp_path, "reef.md", REEF)
    batch_sizes: list[int] = []
    await ingest(ctx, Budget(make_ample_budget().deadline, batch_sizes.append))
    assert batch_sizes == [30, 6]
    assert await count(ctx) == 36

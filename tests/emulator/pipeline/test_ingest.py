"""Ingest makes the database agree with the files, and writes only differences."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.cloud.firestore import DocumentSnapshot
from pydantic import SecretStr

from functions.jobs.embed.job import embed
from functions.jobs.ingest.job import count, ingest
from functions.jobs.ingest.path import ingest_path
from functions.jobs.ingest.readers.reading import read
from shared.core.caller import Caller
from shared.core.errors import InvalidInput
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.chunk_repository import FIRST_STEPS
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Report
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
    read_snapshots,
    read_tombstones,
)

REEF = "Reef the mainsail early."
DOUGH = "Knead the dough well ..."
TESTS = "Flaky tests erode trust."


@pytest.fixture
def settings(project: str, tmp_path: Path) -> Settings:
    """Settings by which ingest reads a folder of the test."""
    return Settings(google_cloud_project=project, ingest_path=str(tmp_path))


def make_highlights(*texts: str) -> list[dict[str, Any]]:
    """Return the highlights of a Readwise book, at the locations 0, 1, 2 ..."""
    return [{"id": number, "location": number, "text": text} for number, text in enumerate(texts)]


def make_highlights_with_links(*texts: str) -> list[dict[str, Any]]:
    """Return such highlights with their pages in Readwise, by which they are known."""
    return [
        highlight | {"readwise_url": f"https://readwise.io/open/{highlight['id']}"}
        for highlight in make_highlights(*texts)
    ]


async def run_ingest(ctx: Context) -> Report:
    return await ingest(ctx, make_ample_budget())


async def ingest_and_embed(ctx: Context) -> None:
    await run_ingest(ctx)
    await embed(ctx, make_ample_budget())


async def ingest_and_finish_all_steps(ctx: Context) -> None:
    """Ingest and embed, and clear the other pending steps, as if every job had run."""
    await ingest_and_embed(ctx)
    for chunk_id in await read_chunks(ctx):
        await (
            ctx.database.connection.client.collection("chunks")
            .document(chunk_id)
            .update({"pending": {}})
        )


async def read_chunk_snapshots(ctx: Context) -> dict[str, DocumentSnapshot[Any]]:
    """Return the snapshots of the chunks by their texts."""
    snapshots = await read_snapshots(ctx, "chunks")
    chunks = await read_chunks(ctx)
    return {data["content"]: snapshots[chunk_id] for chunk_id, data in chunks.items()}


async def test_a_highlight_becomes_a_chunk_with_all_fields(ctx: Context, tmp_path: Path) -> None:
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

    ((chunk_id, data),) = (await read_documents(ctx, "chunks")).items()
    assert chunk_id.startswith("readwise-7-")
    bookkeeping = {"content_hash", "fingerprint", "created_at", "updated_at"}
    assert {key: value for key, value in data.items() if key not in bookkeeping} == {
        "source_id": "readwise-7",
        "start": 0,
        "end": len(REEF),
        "title": "Sails",
        "author": "Ann Helm",
        "source": "kindle",
        "category": "books",
        "tags": ["sea", "safety"],
        "content": REEF,
        "position": 1,
        "total": 1,
        "readwise_url": "https://readwise.io/open/10",
        "source_url": "https://example.com/sails",
        "highlight_url": "https://example.com/sails#10",
        "highlighted_at": datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC),
        "dated_at": datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC),
        "kept": "added",
        "pending": dict.fromkeys(FIRST_STEPS, data["created_at"]),
        "tries": {},
        "parked": {},
    }


async def test_chunks_are_exact_slices_of_their_source_in_order(
    ctx: Context, tmp_path: Path
) -> None:
    paragraphs = (f"Paragraph {number} says \U0001f600 this. " * 40 for number in range(30))
    write_file(tmp_path, "long.md", "# Long\n\n" + "\n\n".join(paragraphs))
    write_export(tmp_path, make_readwise_book(highlights=make_highlights(REEF, DOUGH)))
    texts = {
        source.source_id: source.text for source in read(tmp_path) if isinstance(source, Source)
    }

    await run_ingest(ctx)

    all_chunks = list((await read_chunks(ctx)).values())
    assert len(all_chunks) > 10
    for source_id, text in texts.items():
        chunks = [chunk for chunk in all_chunks if chunk["source_id"] == source_id]
        for chunk in chunks:
            assert text[chunk["start"] : chunk["end"]] == chunk["content"]
            assert chunk["total"] == len(chunks)
        positions = sorted(chunk["position"] for chunk in chunks)
        assert positions == list(range(1, len(chunks) + 1))


async def test_an_unchanged_source_costs_one_read_and_no_write(app: App, tmp_path: Path) -> None:
    records = [{"id": str(number), "text": f"Note {number}."} for number in range(40)]
    write_file(tmp_path, "notes.jsonl", format_json_lines(*records))
    await run_ingest(app.context(Caller(), Meter()))
    meter = Meter()
    report = await run_ingest(app.context(Caller(), meter))
    assert report.counts == {"read": 40}
    assert meter.documents_read == 44  # 40 sources, the due links, and 3 documents on the folder
    assert meter.documents_written == 1  # when the folder was read
    assert meter.round_trips == 7


async def test_only_an_edited_highlight_is_embedded_again(ctx: Context, tmp_path: Path) -> None:
    write_export(
        tmp_path, make_readwise_book(highlights=make_highlights_with_links(REEF, DOUGH, TESTS))
    )
    await ingest_and_embed(ctx)
    before = await read_chunk_snapshots(ctx)

    edited = DOUGH.replace("well", "long")
    write_export(
        tmp_path, make_readwise_book(highlights=make_highlights_with_links(REEF, edited, TESTS))
    )
    report = await run_ingest(ctx)

    after = await read_chunk_snapshots(ctx)
    assert report.counts == {"read": 1, "sources": 1, "created": 1, "deleted": 1}
    assert set(after) == {REEF, edited, TESTS}
    assert set(after[edited].get("pending")) == set(FIRST_STEPS)
    for text in (REEF, TESTS):
        assert before[text].update_time == after[text].update_time


async def test_chunks_moved_by_an_edit_keep_their_vectors(ctx: Context, tmp_path: Path) -> None:
    write_export(tmp_path, make_readwise_book(highlights=make_highlights(REEF, TESTS)))
    await ingest_and_finish_all_steps(ctx)
    before = await read_chunks_by_text(ctx)

    write_export(
        tmp_path, make_readwise_book(highlights=make_highlights("Something new.", REEF, TESTS))
    )
    await run_ingest(ctx)

    after = await read_chunks_by_text(ctx)
    assert [after[text]["position"] for text in (REEF, TESTS)] == [2, 3]
    for text in (REEF, TESTS):
        assert after[text]["start"] == before[text]["start"] + len("Something new.\n\n")
        assert after[text]["embedding"] == before[text]["embedding"]
        assert set(after[text]["pending"]) == {"index"}


async def test_a_changed_title_embeds_all_chunks_again(ctx: Context, tmp_path: Path) -> None:
    write_export(
        tmp_path,
        make_readwise_book(highlights=make_highlights(REEF, DOUGH)),
        make_readwise_book(user_book_id=8),
    )
    await ingest_and_finish_all_steps(ctx)
    changed = make_readwise_book(title="Walden Pond", highlights=make_highlights(REEF, DOUGH))
    write_export(tmp_path, changed, make_readwise_book(user_book_id=8))
    assert (await run_ingest(ctx)).counts == {"read": 2, "sources": 1, "updated": 2}
    after = await read_chunks_by_text(ctx)
    assert {text: (chunk["title"], set(chunk["pending"])) for text, chunk in after.items()} == {
        REEF: ("Walden Pond", {"embed", "index"}),
        DOUGH: ("Walden Pond", {"embed", "index"}),
        "Simplify.": ("Walden", set()),
    }


async def test_changed_tags_are_indexed_but_not_embedded(ctx: Context, tmp_path: Path) -> None:
    write_export(tmp_path, make_readwise_book(highlights=make_highlights(REEF)))
    await ingest_and_finish_all_steps(ctx)
    before = await read_chunks_by_text(ctx)
    write_export(
        tmp_path, make_readwise_book(book_tags=[{"name": "new"}], highlights=make_highlights(REEF))
    )
    assert (await run_ingest(ctx)).counts == {"read": 1, "sources": 1, "updated": 1}
    after = await read_chunks_by_text(ctx)
    assert after[REEF]["tags"] == ["new"]
    assert set(after[REEF]["pending"]) == {"index"}
    assert after[REEF]["embedding"] == before[REEF]["embedding"]


async def test_a_paragraph_missing_from_its_file_is_deleted(ctx: Context, tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} says this. " * 60 for number in range(3)]
    write_file(tmp_path, "long.md", "\n\n".join(paragraphs))
    await run_ingest(ctx)
    before = await read_chunks_by_text(ctx)
    write_file(tmp_path, "long.md", paragraphs[0])
    assert (await run_ingest(ctx)).counts["deleted"] == len(before) - 1
    assert set(await read_chunks_by_text(ctx)) == {paragraphs[0].strip()}
    [source] = (await read_documents(ctx, "sources")).values()
    assert source["chunk_count"] == 1


async def test_a_deleted_book_is_removed_with_its_chunks(ctx: Context, tmp_path: Path) -> None:
    write_export(
        tmp_path,
        make_readwise_book(highlights=make_highlights(REEF, DOUGH)),
        make_readwise_book(user_book_id=8),
    )
    await run_ingest(ctx)
    write_export(
        tmp_path,
        make_readwise_book(is_deleted=True, highlights=[]),
        make_readwise_book(user_book_id=8),
    )
    await run_ingest(ctx)
    assert set(await read_documents(ctx, "sources")) == {"readwise-8"}
    assert set(await read_chunks_by_text(ctx)) == {"Simplify."}
    assert len(await read_tombstones(ctx)) == 2


async def test_a_book_that_stays_deleted_is_not_written_again(app: App, tmp_path: Path) -> None:
    """The only write stores when the export was read."""
    write_export(tmp_path, make_readwise_book())
    await run_ingest(app.context(Caller(), Meter()))
    write_export(tmp_path, make_readwise_book(is_deleted=True))
    await run_ingest(app.context(Caller(), Meter()))
    meter = Meter()
    report = await run_ingest(app.context(Caller(), meter))
    assert report.counts == {"read": 1}
    assert meter.documents_written == 1


async def test_a_repeated_text_makes_two_chunks(ctx: Context, tmp_path: Path) -> None:
    write_export(tmp_path, make_readwise_book(highlights=make_highlights(REEF, DOUGH, REEF)))
    await run_ingest(ctx)
    stored = (await read_chunks(ctx)).values()
    assert sorted(chunk["content"] for chunk in stored) == [DOUGH, REEF, REEF]
    assert sorted(chunk["position"] for chunk in stored) == [1, 2, 3]


async def test_a_book_larger_than_a_commit_is_stored_completely(
    ctx: Context, tmp_path: Path
) -> None:
    texts = [f"Highlight {number}." for number in range(450)]
    write_export(tmp_path, make_readwise_book(highlights=make_highlights(*texts)))
    assert (await run_ingest(ctx)).counts == {"read": 1, "sources": 1, "created": 450}
    assert set(await read_chunks_by_text(ctx)) == set(texts)
    assert (await read_documents(ctx, "sources"))["readwise-7"]["chunk_count"] == 450


async def test_an_unreadable_item_is_reported_and_others_are_stored(
    ctx: Context, tmp_path: Path
) -> None:
    write_file(tmp_path, "a.md", REEF)
    write_file(tmp_path, "b.md", b"caf\0")
    write_export(tmp_path, make_readwise_book(highlights=None), make_readwise_book(user_book_id=8))
    report = await run_ingest(ctx)
    assert report.failures == [
        Failure("b.md", "is not text: there is a NUL byte at position 3"),
        Failure("export.json: Walden", "has no `highlights`"),
    ]
    assert report.finished
    assert report.counts["read"] == 2
    assert set(await read_chunks_by_text(ctx)) == {REEF, "Simplify."}


async def test_an_item_stored_in_part_is_a_warning(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "a.md", f"---\ndate: soon\n---\n{REEF}")
    write_export(
        tmp_path, make_readwise_book(highlights=[{"text": DOUGH, "highlighted_at": "later"}])
    )
    report = await run_ingest(ctx)
    reason = "is not an ISO 8601 date such as 2024-05-31; field ignored"
    assert report.failures == []
    assert report.warnings == [
        Failure("a.md", f"line 2: date: “soon” {reason}"),
        Failure("export.json: Walden", f"highlights.0.highlighted_at: “later” {reason}"),
    ]
    assert set(await read_chunks_by_text(ctx)) == {REEF, DOUGH}


async def test_unsupported_files_are_counted_by_suffix(ctx: Context, tmp_path: Path) -> None:
    unsupported = ["a.docx", "b.DOCX", "x/c.docx", "d.xlsx", "e.xlsx", "README", "2. No title"]
    hidden = [".hidden.docx", ".obsidian/plugins/f.css"]
    for name in ["1. A title.md", *unsupported, *hidden]:
        write_file(tmp_path, name, REEF)
    report = await run_ingest(ctx)
    assert report.note == "Not read: 3 .docx, 2 .xlsx, 2 without an extension."
    assert report.counts["read"] == 1
    assert report.failures == []


async def test_exports_of_a_synchronized_account_cause_no_warning(
    ctx: Context, tmp_path: Path
) -> None:
    write_file(tmp_path, "note.md", REEF)
    write_export(
        tmp_path, make_readwise_book(highlights=[{"text": DOUGH, "highlighted_at": "later"}])
    )
    with_token = ctx.settings.model_copy(update={"readwise_token": SecretStr("of-nobody")})
    ctx = replace(ctx, settings=with_token)
    report = Report()
    await ingest_path(str(tmp_path), ctx, make_ample_budget(), report)
    assert report.counts["read"] == 1
    assert report.warnings == []


async def test_an_oversized_item_is_reported_and_others_are_stored(
    ctx: Context, tmp_path: Path
) -> None:
    line = {"id": "1", "author": "a" * 1_100_000, "text": DOUGH}  # a document may have 1 MiB
    write_file(tmp_path, "a.jsonl", format_json_lines(line))
    write_file(tmp_path, "b.md", REEF)
    report = await run_ingest(ctx)
    assert [failure.name for failure in report.failures] == ["a.jsonl line 1"]
    assert set(await read_chunks_by_text(ctx)) == {REEF}


async def test_many_long_tags_fit_into_commits(ctx: Context, tmp_path: Path) -> None:
    tags = [f"{number} {'t' * 1000}" for number in range(40)]
    texts = [f"Highlight {number}." for number in range(150)]
    write_export(tmp_path, make_readwise_book(book_tags=tags, highlights=make_highlights(*texts)))
    async with asyncio.timeout(120):  # Firestore's client retries a refused commit for a minute
        await run_ingest(ctx)
    assert set(await read_chunks_by_text(ctx)) == set(texts)


async def test_a_run_without_time_stores_nothing(ctx: Context, tmp_path: Path) -> None:
    write_file(tmp_path, "note.md", REEF)
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert await read_documents(ctx, "chunks") == {}
    assert (await run_ingest(ctx)).finished
    assert set(await read_chunks_by_text(ctx)) == {REEF}


async def test_a_run_out_of_time_keeps_the_sources_it_stored(ctx: Context, tmp_path: Path) -> None:
    records = [{"id": str(number), "text": f"Note {number}."} for number in range(40)]
    write_file(tmp_path, "notes.jsonl", format_json_lines(*records))
    report = await ingest(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["created"] == 30
    assert (await run_ingest(ctx)).counts == {"read": 40, "sources": 10, "created": 10}
    assert len(await read_documents(ctx, "sources")) == 40


async def test_the_reported_progress_ends_at_the_total(ctx: Context, tmp_path: Path) -> None:
    records = [{"id": str(number), "text": f"Note {number}."} for number in range(35)]
    write_file(tmp_path, "notes.jsonl", format_json_lines(*records))
    write_file(tmp_path, "reef.md", REEF)
    batch_sizes: list[int] = []
    await ingest(ctx, Budget(make_ample_budget().deadline, batch_sizes.append))
    assert batch_sizes == [30, 6]
    assert await count(ctx) == 36


async def test_an_unset_path_is_refused_with_advice(app: App, project: str) -> None:
    settings = Settings(google_cloud_project=project)
    ctx = replace(app.context(Caller(), Meter()), settings=settings)
    with pytest.raises(InvalidInput, match="Set INGEST_PATH"):
        await run_ingest(ctx)

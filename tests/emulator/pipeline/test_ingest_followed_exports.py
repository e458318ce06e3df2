"""Records and books that a followed export no longer contains are forgotten, but no others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from functions.jobs.ingest.folder import ingest_confirmed
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from shared.runtime.context import Context
from tests.support.followed_folder import (
    NOTE_NUMBERS,
    compare,
    ingest_cleanly,
    make_settings,
    make_vault,
    read_source_ids,
    read_sources_by_text,
    run_ingest,
)
from tests.support.jobs import make_ample_budget
from tests.support.source_files import (
    format_json_lines,
    make_readwise_book,
    write_export,
    write_file,
)

BOOK_1 = derive_book_source_id("1")


def format_records(*numbers: int) -> str:
    """Return JSON Lines with records of these numbers."""
    return format_json_lines(*({"id": str(n), "text": f"Record {n}."} for n in numbers))


async def test_records_missing_from_a_file_are_forgotten(ctx: Context, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_file(folder, "docs.jsonl", format_records(1, 2, 3, 4, 5, 6))
    write_file(folder, "a.md", "Note a.")
    write_file(folder, "b.md", "Note b.")
    notes = {"Note a.", "Note b."}
    await ingest_cleanly(ctx, folder)

    write_file(folder, "docs.jsonl", format_records(3, 4, 5, 6) + "broken")
    assert len((await run_ingest(ctx, folder)).failures) == 1
    assert len(await read_sources_by_text(ctx)) == 8  # nothing is forgotten

    write_file(folder, "docs.jsonl", format_records(3, 4, 5, 6))
    await ingest_cleanly(ctx, folder)
    assert set(await read_sources_by_text(ctx)) == notes | {f"Record {n}." for n in (3, 4, 5, 6)}

    (folder / "docs.jsonl").unlink()
    write_file(folder, "more.jsonl", format_records(2))
    write_file(folder, "renamed.jsonl", format_records(3, 4, 5))
    await ingest_cleanly(ctx, folder)
    assert set(await read_sources_by_text(ctx)) == notes | {f"Record {n}." for n in (2, 3, 4, 5)}


BOOKS: Final = [
    make_readwise_book(user_book_id=number, title=f"Book {number}") for number in range(1, 7)
]
BOOK_IDS: Final = set(map(derive_book_source_id, "123456"))


async def test_a_book_missing_from_a_newer_export_stays(ctx: Context, tmp_path: Path) -> None:
    """The newer export may have been made with `updatedAfter`, which has only what changed."""
    export = write_export(tmp_path, *BOOKS)
    await ingest_cleanly(ctx, export)
    write_export(tmp_path, *BOOKS[:2])
    assert (await ingest_cleanly(ctx, export)).counts == {"read": 2, "sources kept": 4}
    assert await read_source_ids(ctx) == BOOK_IDS
    assert (await ingest_cleanly(ctx, export)).counts == {"read": 2}

    write_export(tmp_path, *BOOKS[1:], {"title": "no id"})
    assert len((await run_ingest(ctx, export)).failures) == 1
    page = {"count": 6, "nextPageCursor": 7, "results": BOOKS[1:]}
    write_file(tmp_path, export.name, json.dumps(page))
    await ingest_cleanly(ctx, export)
    assert await read_source_ids(ctx) == BOOK_IDS
    export.unlink()
    changes = await compare(ctx, export)
    assert changes.missing_ids == BOOK_IDS


async def test_a_book_that_an_export_names_as_deleted_is_forgotten(
    ctx: Context, tmp_path: Path
) -> None:
    """It stays out although an older export still has it, until it is restored."""
    write_export(tmp_path, *BOOKS)
    await ingest_cleanly(ctx, tmp_path)
    later = {"results": [make_readwise_book(user_book_id=1, is_deleted=True, highlights=[])]}
    write_file(tmp_path, "later.json", json.dumps(later))
    await ingest_cleanly(ctx, tmp_path)
    for _ in range(2):
        assert BOOK_IDS - await read_source_ids(ctx) == {BOOK_1}
        await ingest_cleanly(ctx, tmp_path)


async def test_the_books_of_a_deleted_export_are_forgotten(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    export = write_export(
        vault, make_readwise_book(), make_readwise_book(user_book_id=8, title="Bread")
    )
    await ingest_cleanly(ctx, vault)
    export.rename(vault / "renamed.json")
    assert (await ingest_cleanly(ctx, vault)).counts == {"read": 8}
    (vault / "renamed.json").unlink()
    await ingest_cleanly(ctx, vault)
    assert set((await read_sources_by_text(ctx)).keys()) == {f"Note {n}." for n in NOTE_NUMBERS}


async def test_a_book_that_another_export_contains_is_not_forgotten(
    ctx: Context, tmp_path: Path
) -> None:
    """The book is in the exports of two folders, and is forgotten when neither has it any more."""
    first = write_export(make_vault(tmp_path / "a"), BOOKS[0])
    second = write_export(make_vault(tmp_path / "b"), *BOOKS)
    await ingest_cleanly(ctx, first.parent)
    await ingest_cleanly(ctx, second.parent)

    first.unlink()
    await ingest_cleanly(ctx, first.parent)
    assert await read_source_ids(ctx) >= BOOK_IDS

    second.unlink()
    changes = await compare(ctx, second.parent)
    assert changes.missing_ids == BOOK_IDS


async def test_a_deleted_export_deletes_no_book_of_a_synchronized_account(
    ctx: Context, tmp_path: Path
) -> None:
    """Nor does another export cause warnings, since it is not read."""
    export = write_export(make_vault(tmp_path), BOOKS[0])
    await ingest_cleanly(ctx, tmp_path)
    export.unlink()
    highlights = [{"text": "Knead well.", "highlighted_at": "later"}]
    write_export(tmp_path, make_readwise_book(highlights=highlights))

    context = replace(ctx, settings=make_settings(ctx, readwise_token="t"))
    report = await ingest_confirmed(str(tmp_path), frozenset(), context, make_ample_budget())
    assert report.failures == report.warnings == []
    assert report.counts["read"] == len(NOTE_NUMBERS)
    assert BOOK_1 in await read_source_ids(ctx)
    changes = await compare(ctx, tmp_path, follows_readwise=True)
    assert changes.missing_ids == frozenset()

    (tmp_path / "export.json").unlink()
    await ingest_cleanly(ctx, tmp_path)  # without a token
    assert BOOK_1 not in await read_source_ids(ctx)

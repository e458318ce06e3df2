"""A folder is followed: renamed files keep their sources, and missing ones are forgotten."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.ingest.job import ingest
from functions.jobs.ingest.path import compare_path, ingest_confirmed, ingest_path
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.runtime.job import Failure, Report
from tests.support.commit_hooks import WatchedApp, call_after
from tests.support.jobs import make_ample_budget, make_one_step_budget
from tests.support.knowledge import set_fields
from tests.support.notes import NOTE_TEXT, save_note
from tests.support.readwise_runs import read_ingested_documents
from tests.support.source_files import (
    format_json_lines,
    make_readwise_book,
    write_export,
    write_file,
)
from tests.support.stored_documents import read_chunks, read_documents

if TYPE_CHECKING:
    from pathlib import Path

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

CARD: Final = {"summary": "Shorten sail in time.", "takeaways": ["Reef early"]}
NUMBERS: Final = range(1, 7)


class Killed(Exception):
    """The run ends here."""


def replace_settings(ctx: Context, **fields: Any) -> Settings:
    """Return settings with these fields."""
    return Settings(google_cloud_project=ctx.settings.google_cloud_project, **fields)


def make_vault(folder: Path) -> Path:
    """Make a folder with six notes."""
    for number in NUMBERS:
        write_file(folder, f"vault/{number}.md", f"Note {number}.")
    return folder / "vault"


async def run(ctx: Context, path: Path, confirmed: frozenset[str] | None = None) -> Report:
    """Ingest a path."""
    context = replace(ctx, settings=replace_settings(ctx, ingest_path=str(path)))
    if confirmed is None:
        return await ingest(context, make_ample_budget())
    return await ingest_confirmed(str(path), confirmed, context, make_ample_budget())


async def run_cleanly(ctx: Context, path: Path) -> Report:
    report = await run(ctx, path)
    assert report.failures == []
    return report


async def read_sources_by_text(ctx: Context) -> dict[str, str]:
    """Return the ids of the stored sources by their texts."""
    return {chunk["content"]: chunk["source_id"] for chunk in (await read_chunks(ctx)).values()}


async def add_card(ctx: Context, text: str) -> None:
    [chunk_id] = [
        name for name, chunk in (await read_chunks(ctx)).items() if chunk["content"] == text
    ]
    await set_fields(ctx, f"chunks/{chunk_id}", {"knowledge_card": CARD})


async def read_card(ctx: Context, text: str) -> Any:
    """Return the card of the passage with this text."""
    [chunk] = [chunk for chunk in (await read_chunks(ctx)).values() if chunk["content"] == text]
    return chunk.get("knowledge_card")


async def test_missing_files_are_forgotten(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    (vault / "1.md").unlink()
    (vault / "2.md").unlink()
    report = await run_cleanly(ctx, vault)
    assert report.counts == {"read": 4, "sources": 2, "deleted": 2}
    remaining = {text: name for text, name in before.items() if text not in {"Note 1.", "Note 2."}}
    assert await read_sources_by_text(ctx) == remaining
    assert len(await read_documents(ctx, "forgotten_sources")) == 2
    assert (await run_cleanly(ctx, vault)).counts == {"read": 4}


async def test_a_returned_file_has_its_card_again(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_sources_by_text(ctx)
    (vault / "1.md").rename(tmp_path / "1.md")
    await run_cleanly(ctx, vault)
    (tmp_path / "1.md").rename(vault / "returned.md")
    assert (await run_cleanly(ctx, vault)).counts["restored"] == 1
    assert await read_sources_by_text(ctx) == before
    assert await read_card(ctx, "Note 1.") == CARD


async def test_renamed_and_moved_files_keep_ids_and_cards(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "twin.md", "Note 2.")
    await run_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_chunks(ctx)
    (vault / "1.md").rename(vault / "other.txt")
    (vault / "sub").mkdir()
    (vault / "2.md").rename(vault / "sub/2.md")
    report = await run_cleanly(ctx, vault)
    assert report.counts == {"read": 7, "sources": 1, "updated": 1}  # the title of `other`
    stored = await read_chunks(ctx)
    assert stored.keys() == before.keys()
    assert await read_card(ctx, "Note 1.") == CARD
    assert {chunk["title"] for chunk in stored.values()} >= {"other", "2", "twin"}
    assert (await run_cleanly(ctx, vault)).counts == {"read": 7}


def rename(vault: Path, names: dict[str, str]) -> None:
    """Rename files at once, so that they may swap names; what has a new name is replaced."""
    contents = {new: (vault / old).read_text() for old, new in names.items()}
    for old in names:
        (vault / old).unlink()
    for new, content in contents.items():
        write_file(vault, new, content)


@pytest.mark.parametrize(
    "names",
    [
        {"1.md": "2.md", "2.md": "22.md"},
        {"1.md": "2.md", "2.md": "1.md"},
        {"1.md": "2.md", "2.md": "3.md", "3.md": "1.md"},
        {"6.md": "7.md", "5.md": "6.md", "4.md": "5.md", "3.md": "sub/4.md"},
    ],
    ids=["shift", "swap", "cycle", "long shift"],
)
async def test_files_that_take_each_others_names_keep_ids(
    ctx: Context, tmp_path: Path, names: dict[str, str]
) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_chunks(ctx)
    rename(vault, names)
    changes = await compare_path(vault, ctx.database)
    renamed = {vault / new: vault / old for old, new in names.items()}
    assert (changes.renamed, changes.new, changes.edited) == (renamed, [], [])
    for _ in range(2):
        assert (await run_cleanly(ctx, vault)).counts["deleted"] == 0
        assert (await read_chunks(ctx)).keys() == before.keys()
    assert await read_card(ctx, "Note 1.") == CARD
    assert await read_documents(ctx, "forgotten_sources") == {}


@pytest.mark.parametrize("seed", range(3))
async def test_shuffled_files_keep_ids(ctx: Context, tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for _ in range(5):
        old_names = sorted(path.name for path in vault.iterdir())
        new_names = generator.sample([f"{number}.md" for number in range(1, 9)], len(old_names))
        rename(vault, dict(zip(old_names, new_names, strict=True)))
        await run_cleanly(ctx, vault)
        assert await read_sources_by_text(ctx) == before


async def test_a_replaced_file_is_forgotten(ctx: Context, tmp_path: Path) -> None:
    """The second note is deleted, and the later ones move up; then it comes back."""
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    await add_card(ctx, "Note 2.")
    before = await read_sources_by_text(ctx)
    names = {f"{number}.md": f"{number - 1}.md" for number in range(3, 7)}
    rename(vault, names)
    changes = await compare_path(vault, ctx.database)
    assert (changes.missing, changes.edited, changes.file_count) == ([], [], 6)
    assert changes.missing_ids == {before["Note 2."]}
    await run(ctx, vault, frozenset())
    assert await read_sources_by_text(ctx) == before
    await run_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == {k: v for k, v in before.items() if k != "Note 2."}
    assert (await run_cleanly(ctx, vault)).counts == {"read": 5}
    rename(vault, {new: old for old, new in names.items()})
    write_file(vault, "2.md", "Note 2.")
    await run_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == before
    assert await read_card(ctx, "Note 2.") == CARD


async def test_many_replaced_files_must_be_confirmed(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    rename(vault, {"1.md": "4.md", "2.md": "5.md", "3.md": "6.md"})
    reason = (
        "3 of 6 texts disappeared, and nothing is forgotten: to forget their texts, run"
        " carrel ingest FOLDER --yes"
    )
    for _ in range(2):
        assert (await run(ctx, vault)).failures == [Failure("vault", reason)]
        assert await read_sources_by_text(ctx) == before
        rename(vault, {"4.md": "5.md", "5.md": "4.md"})
    changes = await compare_path(vault, ctx.database)
    assert (await run(ctx, vault, changes.missing_ids)).failures == []
    assert await read_sources_by_text(ctx) == {
        f"Note {n}.": before[f"Note {n}."] for n in (1, 2, 3)
    }


async def test_a_note_inserted_before_others_is_new(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    rename(vault, {f"{number}.md": f"{number + 1}.md" for number in NUMBERS})
    write_file(vault, "1.md", "Inserted.")
    await run_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert {text: stored[text] for text in before} == before
    assert stored["Inserted."] not in before.values()


async def test_twins_that_swap_with_another_keep_their_ids(ctx: Context, tmp_path: Path) -> None:
    """Of two files of the same content, the one that was edited keeps its id."""
    vault = make_vault(tmp_path)
    write_file(vault, "0.md", "Note 2.")
    await run_cleanly(ctx, vault)
    before = await read_documents(ctx, "sources")
    by_text = await read_sources_by_text(ctx)
    rename(vault, {"1.md": "2.md", "2.md": "1.md"})
    write_file(vault, "0.md", "Edited.")
    changes = await compare_path(vault, ctx.database)
    assert changes.renamed == {vault / "1.md": vault / "2.md", vault / "2.md": vault / "1.md"}
    assert changes.edited == [vault / "0.md"]
    await run_cleanly(ctx, vault)
    assert (await read_documents(ctx, "sources")).keys() == before.keys()
    assert (await read_sources_by_text(ctx))["Note 1."] == by_text["Note 1."]


async def test_a_new_file_at_a_former_path_is_another_source(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    (vault / "1.md").rename(vault / "old.md")
    await run_cleanly(ctx, vault)
    write_file(vault, "1.md", "Another text.")
    for _ in range(2):
        await run_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert stored["Note 1."] == before["Note 1."]
    assert stored["Another text."] not in before.values()


async def test_a_copy_before_an_edit_is_a_new_source(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    write_file(vault, "backup.md", "Note 1.")
    write_file(vault, "1.md", "Note 1, edited.")
    await run_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert stored["Note 1, edited."] == before["Note 1."]
    assert stored["Note 1."] != before["Note 1."]


async def test_two_edits_are_no_move(ctx: Context, tmp_path: Path) -> None:
    """One file is edited, and another gets its former text, as from a template."""
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    write_file(vault, "1.md", "Edited.")
    write_file(vault, "2.md", "Note 1.")
    await run_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert (stored["Edited."], stored["Note 1."]) == (before["Note 1."], before["Note 2."])


async def test_more_than_a_third_must_be_confirmed(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    for number in (1, 2, 3):
        (vault / f"{number}.md").unlink()
    write_file(vault, "new.md", "New.")
    for count in (6, 7):
        reason = (
            f"3 of {count} files disappeared, and nothing is forgotten: to forget their texts, run"
            " carrel ingest FOLDER --yes"
        )
        assert (await run(ctx, vault)).failures == [Failure("vault", reason)]
        assert len(await read_sources_by_text(ctx)) == 7
    changes = await compare_path(vault, ctx.database)
    some = frozenset(sorted(changes.missing_ids)[:2])
    assert (await run(ctx, vault, some)).failures == []
    assert len(await read_sources_by_text(ctx)) == 5
    await run(ctx, vault, changes.missing_ids)
    assert set(await read_sources_by_text(ctx)) == {"Note 4.", "Note 5.", "Note 6.", "New."}


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_an_empty_folder_must_be_confirmed(
    ctx: Context, tmp_path: Path, *, is_deleted: bool
) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    shutil.rmtree(vault)
    if not is_deleted:
        vault.mkdir()
    with pytest.raises(InvalidInput):
        await run(ctx, vault)
    assert len(await read_sources_by_text(ctx)) == 6
    changes = await compare_path(vault, ctx.database)
    await run(ctx, vault, changes.missing_ids)
    assert await read_sources_by_text(ctx) == {}
    with pytest.raises(InvalidInput):
        await compare_path(vault, ctx.database)
    make_vault(tmp_path)
    assert (await run_cleanly(ctx, vault)).counts == {"read": 6, "sources": 6, "restored": 6}


async def test_the_next_run_forgets_what_one_had_no_time_for(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    (vault / "1.md").unlink()
    missing = (await compare_path(vault, ctx.database)).missing_ids
    report = await ingest_confirmed(str(vault), missing, ctx, make_one_step_budget())
    assert not report.finished
    assert len(await read_sources_by_text(ctx)) == 6
    await run_cleanly(ctx, vault)
    assert len(await read_sources_by_text(ctx)) == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_an_unreadable_folder_is_not_missing(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "sub/a.md", "In a folder.")
    await run_cleanly(ctx, vault)
    (vault / "sub").chmod(0)
    assert len((await run(ctx, vault)).failures) == 1
    (vault / "sub").chmod(0o700)
    assert len(await read_sources_by_text(ctx)) == 7


async def test_a_file_that_cannot_be_read_stays(ctx: Context, tmp_path: Path) -> None:
    """That includes a link to nowhere, a circular link, a binary file and a folder of that name."""
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in (1, 2, 3, 4):
        (vault / f"{number}.md").unlink()
    (vault / "1.md").symlink_to(vault / "nowhere.md")
    (vault / "2.md").symlink_to(vault / "2.md")
    write_file(vault, "3.md", b"\0\0\0")
    (vault / "4.md").mkdir()
    await run(ctx, vault)
    assert await read_sources_by_text(ctx) == before
    write_file(vault, "4.md/inner.md", "Inner.")
    (vault / "loop").symlink_to(vault)
    await run(ctx, vault)
    assert (await read_sources_by_text(ctx)).items() >= before.items()


async def test_records_missing_from_a_file_are_forgotten(ctx: Context, tmp_path: Path) -> None:
    lines = {str(number): {"id": str(number), "text": f"Record {number}."} for number in NUMBERS}
    docs = write_file(tmp_path, "data/docs.jsonl", format_json_lines(*lines.values()))
    for name in ("a", "b"):
        write_file(docs.parent, f"{name}.md", f"Note {name}.")
    notes = {"Note a.", "Note b."}
    await run_cleanly(ctx, docs.parent)
    write_file(
        docs.parent, "docs.jsonl", format_json_lines(*(lines[name] for name in "3456")) + "broken"
    )
    assert len((await run(ctx, docs.parent)).failures) == 1
    assert len(await read_sources_by_text(ctx)) == 8
    write_file(docs.parent, "docs.jsonl", format_json_lines(*(lines[name] for name in "3456")))
    await run_cleanly(ctx, docs.parent)
    assert set(await read_sources_by_text(ctx)) == notes | {f"Record {name}." for name in "3456"}
    docs.rename(docs.parent / "renamed.jsonl")
    write_file(docs.parent, "more.jsonl", format_json_lines(lines["2"]))
    write_file(docs.parent, "renamed.jsonl", format_json_lines(*(lines[name] for name in "345")))
    report = await run(ctx, docs.parent)
    assert report.failures == []
    assert set(await read_sources_by_text(ctx)) == notes | {f"Record {name}." for name in "2345"}


async def read_source_ids(ctx: Context) -> set[str]:
    return set(await read_documents(ctx, "sources"))


BOOKS: Final = [
    make_readwise_book(user_book_id=number, title=f"Book {number}") for number in range(1, 7)
]
BOOK_IDS: Final = {f"readwise-{number}" for number in range(1, 7)}


async def test_a_book_that_left_an_export_is_forgotten(ctx: Context, tmp_path: Path) -> None:
    """The export is ingested by itself. A newer one takes its place, and then the first again."""
    export = write_export(tmp_path, *BOOKS)
    await run_cleanly(ctx, export)
    await set_fields(ctx, "sources/readwise-1", {"author": "Reader"})
    write_export(tmp_path, *BOOKS[1:])
    report = await run_cleanly(ctx, export)
    assert (report.counts["sources"], report.note) == (1, "")
    assert await read_source_ids(ctx) == BOOK_IDS - {"readwise-1"}
    assert (await run_cleanly(ctx, export)).counts == {"read": 5}
    write_export(tmp_path, *BOOKS)
    assert (await run_cleanly(ctx, export)).counts["restored"] == 1
    assert await read_source_ids(ctx) == BOOK_IDS


async def test_many_books_that_left_must_be_confirmed(ctx: Context, tmp_path: Path) -> None:
    """So an export that was made with `updatedAfter` takes no library away."""
    export = write_export(tmp_path, *BOOKS)
    await run_cleanly(ctx, export)
    write_export(tmp_path, *BOOKS[:2])
    reason = (
        "4 of 6 texts disappeared, and nothing is forgotten: to forget their texts, run carrel"
        " ingest FOLDER --yes"
    )
    for _ in range(2):
        assert (await run(ctx, export)).failures == [Failure(export.name, reason)]
        assert await read_source_ids(ctx) == BOOK_IDS
    changes = await compare_path(export, ctx.database)
    await run(ctx, export, changes.missing_ids)
    assert await read_source_ids(ctx) == {"readwise-1", "readwise-2"}


@pytest.mark.parametrize("kind", ["broken", "page"])
async def test_an_export_that_is_not_whole_forgets_no_book(
    ctx: Context, tmp_path: Path, kind: str
) -> None:
    export = write_export(tmp_path, *BOOKS)
    await run_cleanly(ctx, export)
    books = [*BOOKS[1:], {"title": "no id"}] if kind == "broken" else BOOKS[1:]
    cursor = None if kind == "broken" else 7
    page = {"count": 6, "nextPageCursor": cursor, "results": books}
    write_file(tmp_path, export.name, json.dumps(page))
    assert len((await run(ctx, export)).failures) == (kind == "broken")
    assert await read_source_ids(ctx) == BOOK_IDS


async def test_a_deleted_export_is_forgotten(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    export = write_export(
        vault, make_readwise_book(), make_readwise_book(user_book_id=8, title="Bread")
    )
    await run_cleanly(ctx, vault)
    export.rename(vault / "renamed.json")
    assert (await run_cleanly(ctx, vault)).counts == {"read": 8}
    (vault / "renamed.json").unlink()
    await run_cleanly(ctx, vault)
    assert set((await read_sources_by_text(ctx)).keys()) == {f"Note {n}." for n in NUMBERS}


async def test_a_book_of_another_export_is_not_missing(ctx: Context, tmp_path: Path) -> None:
    """Another followed folder has an export with it, for as long as that is there."""
    first = write_export(make_vault(tmp_path / "a"), BOOKS[0])
    second = write_export(make_vault(tmp_path / "b"), *BOOKS)
    await run_cleanly(ctx, first.parent)
    await run_cleanly(ctx, second.parent)
    first.unlink()
    await run_cleanly(ctx, first.parent)
    assert await read_source_ids(ctx) >= BOOK_IDS
    write_export(second.parent, *BOOKS[1:])
    await run_cleanly(ctx, second.parent)
    assert BOOK_IDS - await read_source_ids(ctx) == {"readwise-1"}


async def test_books_of_a_followed_library_are_left_to_it(ctx: Context, tmp_path: Path) -> None:
    export = write_export(tmp_path, *BOOKS)
    await run_cleanly(ctx, export)
    write_export(tmp_path, *BOOKS[1:])
    report = Report()
    settings = replace_settings(ctx, readwise_token="t")
    await ingest_path(str(export), replace(ctx, settings=settings), make_ample_budget(), report)
    assert (report.failures, await read_source_ids(ctx)) == ([], BOOK_IDS)
    changes = await compare_path(export, ctx.database, follows_readwise=True)
    assert changes.missing_ids == frozenset()
    await run_cleanly(ctx, export)
    assert await read_source_ids(ctx) == BOOK_IDS - {"readwise-1"}


async def test_ingest_leaves_notes_alone(app: App, ctx: Context, tmp_path: Path) -> None:
    note = await save_note(app)
    before = (await read_documents(ctx, "sources"))[note["source_id"]]
    vault = make_vault(tmp_path)
    export = write_export(
        tmp_path, make_readwise_book(), make_readwise_book(user_book_id=8, title="Bread")
    )
    for path in (vault, export):
        await run_cleanly(ctx, path)
    write_export(tmp_path, make_readwise_book(is_deleted=True))
    (vault / "1.md").unlink()
    await run_cleanly(ctx, vault)
    assert len((await run(ctx, export)).failures) == 1  # one of two books left the export
    changes = await compare_path(vault, ctx.database)
    for file in vault.iterdir():
        file.unlink()
    changes = await compare_path(vault, ctx.database)
    await run(ctx, vault, changes.missing_ids)
    stored = await read_sources_by_text(ctx)
    assert set(stored.values()) == {note["source_id"], "readwise-8"}
    assert NOTE_TEXT in stored
    assert (await read_documents(ctx, "sources"))[note["source_id"]] == before


async def test_one_file_or_inner_folder_forgets_nothing_else(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "sub/a.md", "In a folder.")
    write_file(vault, "sub/b.md", "Here, too.")
    await run_cleanly(ctx, vault)
    (vault / "1.md").unlink()
    (vault / "2.md").rename(vault / "sub/moved.md")
    before = await read_sources_by_text(ctx)
    assert (await run_cleanly(ctx, vault / "3.md")).counts == {"read": 1}
    assert (await run_cleanly(ctx, vault / "sub")).counts["updated"] == 1
    assert await read_sources_by_text(ctx) == before
    await run_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == {k: v for k, v in before.items() if k != "Note 1."}


async def test_an_outer_folder_follows_the_inner_one(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in range(10):
        write_file(tmp_path, f"{number}.md", f"Outer {number}.")
    await run_cleanly(ctx, tmp_path)
    (vault / "1.md").rename(tmp_path / "moved.md")
    (vault / "2.md").rename(vault / "renamed.md")
    (vault / "3.md").unlink()
    for path in (tmp_path, vault, tmp_path):
        await run_cleanly(ctx, path)
    stored = await read_sources_by_text(ctx)
    assert {name: stored[name] for name in before if name in stored} == {
        name: before[name] for name in before if name != "Note 3."
    }
    assert len(stored) == 15


async def test_folders_with_the_same_files_are_followed_apart(ctx: Context, tmp_path: Path) -> None:
    first, second = make_vault(tmp_path / "a"), make_vault(tmp_path / "b")
    await run_cleanly(ctx, first)
    await run_cleanly(ctx, second)
    (first / "1.md").unlink()
    await run_cleanly(ctx, second)
    assert len(await read_documents(ctx, "sources")) == 12
    await run_cleanly(ctx, first)
    assert len(await read_documents(ctx, "sources")) == 11


async def test_a_moved_folder_keeps_ids_of_renamed_files(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path / "a")
    await run_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in NUMBERS:
        (vault / f"{number}.md").rename(vault / f"renamed {number}.md")
    await run_cleanly(ctx, vault)
    (tmp_path / "b").mkdir()
    moved = vault.rename(tmp_path / "b/vault")
    (moved / "renamed 1.md").unlink()
    await run_cleanly(ctx, moved)
    assert await read_sources_by_text(ctx) == {k: v for k, v in before.items() if k != "Note 1."}


async def test_an_export_of_carrel_is_not_followed(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await run_cleanly(ctx, vault)
    write_file(tmp_path, "out/carrel-export.json", "{}")
    changes = await compare_path(vault, ctx.database)
    assert (changes.new, changes.missing) == ([], [])


@pytest.mark.parametrize("commit", [1, 2, 3, 4, 5, 6])
async def test_next_run_completes_one_killed_after_a_commit(
    settings: Settings, ctx: Context, tmp_path: Path, commit: int
) -> None:
    async def die() -> None:
        raise Killed

    project = f"{settings.google_cloud_project}-calm"
    calm = WatchedApp(Settings(google_cloud_project=project))
    calmly = replace(ctx, database=calm.context(ctx.caller, ctx.meter).database)
    calmly = replace(calmly, settings=calm.settings)
    vault = make_vault(tmp_path)
    for target in (calmly, ctx):
        await run_cleanly(target, vault)
    (vault / "1.md").rename(vault / "renamed.md")
    (vault / "2.md").unlink()
    write_file(vault, "3.md", "Note 3, edited.")
    dying = WatchedApp(settings, call_after(commit, die))
    try:
        with pytest.raises(Killed):
            await run(replace(ctx, database=dying.context(ctx.caller, ctx.meter).database), vault)
    finally:
        await dying.aclose()
    for target in (calmly, ctx):
        await run_cleanly(target, vault)
    assert await read_ingested_documents(ctx) == await read_ingested_documents(calmly)
    await calm.aclose()

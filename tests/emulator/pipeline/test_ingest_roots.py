"""Ingested folders of the same name stay separate, and moved or renamed ones keep their sources.

An ingested folder is a root. Its name is part of the ids of its sources, so a second root of the
same name, a namesake, gets a number: `vault-2`.
"""

import os
import shutil
from pathlib import Path

import pytest

from functions.jobs.ingest.folder import load_roots_with_files
from functions.jobs.ingest.listing import read
from shared.core.ids import IdKind, make_id
from shared.knowledge.followed_folders import Root
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.runtime.job import Failure
from tests.support.followed_folder import ingest_cleanly, run_ingest
from tests.support.source_files import (
    format_json_lines,
    make_readwise_book,
    write_export,
    write_file,
)
from tests.support.stored_documents import read_chunks


async def read_stored_texts(ctx: Context) -> dict[str, str]:
    """Return the texts of the stored sources by their ids."""
    return {chunk["source_id"]: chunk["content"] for chunk in (await read_chunks(ctx)).values()}


async def read_roots(ctx: Context) -> list[Root]:
    """Return the registered folders."""
    return [root for root, _ in await load_roots_with_files(ctx.database)]


def make_vault(folder: Path, text: str) -> Path:
    """Make a folder `vault` with four notes: the text and a number from 0."""
    for number in range(4):
        write_file(folder, f"vault/{number}.md", f"{text} {number}.")
    return folder / "vault"


def read_fresh_ids(path: Path) -> list[str]:
    """Return the source ids that a path gets in an empty base."""
    return [item.source_id for item in read(path) if isinstance(item, Source)]


async def test_a_folder_of_the_same_name_overwrites_nothing(ctx: Context, tmp_path: Path) -> None:
    first = write_file(tmp_path, "a/vault/Books/Noise.md", "First.").parents[1]
    second = write_file(tmp_path, "b/vault/Books/Noise.md", "Second.").parents[1]
    third = write_file(tmp_path, "c/vault/Books/Noise.md", "Third.").parents[1]
    for folder in (first, second, third, first, second):
        report = await ingest_cleanly(ctx, folder)
    assert report.note == "Another folder is called vault: this one is vault-2."
    assert sorted((await read_stored_texts(ctx)).values()) == ["First.", "Second.", "Third."]
    assert (await read_stored_texts(ctx))[read_fresh_ids(first)[0]] == "First."


async def test_ids_of_a_namesake_folder_are_unique(ctx: Context, tmp_path: Path) -> None:
    for path, record_id in (("a/data", "2-7"), ("b/data", "7"), ("data-2", "8")):
        line = format_json_lines({"id": record_id, "text": path})
        await ingest_cleanly(ctx, write_file(tmp_path, f"{path}/docs.jsonl", line).parent)
    assert sorted((await read_stored_texts(ctx)).values()) == ["a/data", "b/data", "data-2"]
    ids = {make_id(IdKind.RECORD, name) for name in ("data-2-7", "data-2-8")}
    assert ids < set(await read_stored_texts(ctx))


async def test_json_lines_of_an_inner_folder_overwrite_nothing(
    ctx: Context, tmp_path: Path
) -> None:
    outer = write_file(
        tmp_path, "v/a.jsonl", format_json_lines({"id": "1", "text": "Outer."})
    ).parent
    inner = write_file(
        outer,
        "sub/b.jsonl",
        format_json_lines({"id": "1", "text": "Inner."}, {"id": "2", "text": "Two."}),
    )
    write_file(outer, "z.jsonl", format_json_lines({"id": "2", "text": "Later."}))

    reason = "has the id of a.jsonl line 1; keep one of the two"
    assert (await run_ingest(ctx, outer)).failures[0] == Failure("sub/b.jsonl line 1", reason)
    for path in (inner.parent, inner):
        reason = "has the id of v/a.jsonl line 1; keep one of the two"
        assert (await run_ingest(ctx, path)).failures == [Failure("b.jsonl line 1", reason)]
    assert await read_stored_texts(ctx) == {
        make_id(IdKind.RECORD, "v-1"): "Outer.",
        make_id(IdKind.RECORD, "v-2"): "Two.",
    }


async def test_an_inner_folder_belongs_to_the_ingested_outer_one(
    ctx: Context, tmp_path: Path
) -> None:
    vault = write_file(tmp_path, "vault/Books/Noise.md", "Noise.").parents[1]
    write_file(vault, "Top.md", "Top.")
    await ingest_cleanly(ctx, vault)
    report = await ingest_cleanly(ctx, vault / "Books")
    assert report.counts == {"read": 1}
    assert report.note == "vault/Books is stored as part of vault."
    assert set(await read_stored_texts(ctx)) == set(read_fresh_ids(vault))


async def test_a_folder_keeps_its_ids_inside_a_later_root(ctx: Context, tmp_path: Path) -> None:
    vault = write_file(tmp_path, "vault/Books/deep/Noise.md", "Noise.").parents[2]
    write_file(vault, "Top.md", "Top.")
    await ingest_cleanly(ctx, vault / "Books")
    before = await read_stored_texts(ctx)
    report = await ingest_cleanly(ctx, vault)
    assert report.counts == {"read": 2, "sources": 1, "created": 1}
    assert sorted((await read_stored_texts(ctx)).values()) == ["Noise.", "Top."]
    assert before.items() < (await read_stored_texts(ctx)).items()
    assert (await ingest_cleanly(ctx, vault / "Books/deep")).counts == {"read": 1}


async def test_a_single_file_does_not_register_its_folder(ctx: Context, tmp_path: Path) -> None:
    file = write_file(tmp_path, "home/note.md", "Alone.")
    folder = write_file(tmp_path, "home/vault/note.md", "In a folder.").parent
    await ingest_cleanly(ctx, file)
    await ingest_cleanly(ctx, folder)
    assert await read_stored_texts(ctx) == {
        read_fresh_ids(file)[0]: "Alone.",
        read_fresh_ids(folder)[0]: "In a folder.",
    }
    assert (await ingest_cleanly(ctx, file.parent)).counts == {"read": 2}


async def test_a_file_keeps_its_id_when_its_folder_is_ingested(
    ctx: Context, tmp_path: Path
) -> None:
    file = write_file(tmp_path, "vault/Books/Noise.md", "Noise.")
    write_file(tmp_path, "vault/Books/Walden.md", "Walden.")
    await ingest_cleanly(ctx, file)
    before = await read_stored_texts(ctx)
    await ingest_cleanly(ctx, tmp_path / "vault")
    for path, count in ((file, 1), (file.parent, 2), (tmp_path / "vault", 2)):
        assert (await ingest_cleanly(ctx, path)).counts == {"read": count}
    assert (await ingest_cleanly(ctx, file)).note == ""
    assert before.items() < (await read_stored_texts(ctx)).items()
    assert len(await read_stored_texts(ctx)) == 2


async def test_a_single_file_overwrites_no_namesake(ctx: Context, tmp_path: Path) -> None:
    folder = write_file(tmp_path, "a/notes/day.md", "First.").parent
    await ingest_cleanly(ctx, folder)
    namesake = write_file(tmp_path, "b/notes/day.md", "Second.")
    await ingest_cleanly(ctx, namesake)
    assert sorted((await read_stored_texts(ctx)).values()) == ["First.", "Second."]
    assert (await ingest_cleanly(ctx, namesake.parent)).counts == {"read": 1}


async def test_a_moved_folder_keeps_its_ids(ctx: Context, tmp_path: Path) -> None:
    vault = write_file(tmp_path, "old/vault/Books/Noise.md", "Noise.").parents[1]
    write_file(vault, "Top.md", "Top.")
    await ingest_cleanly(ctx, vault / "Books")
    await ingest_cleanly(ctx, vault)

    moved_vault = tmp_path / "new" / "vault"
    moved_vault.parent.mkdir()
    shutil.move(vault, moved_vault)
    report = await ingest_cleanly(ctx, moved_vault)

    assert report.counts == {"read": 2}
    assert report.note == "vault has moved: it keeps its name and its sources."
    assert (await ingest_cleanly(ctx, moved_vault)).note == ""


@pytest.mark.parametrize("path", ["archive", "new/archive"])
async def test_a_renamed_folder_keeps_its_ids(ctx: Context, tmp_path: Path, path: str) -> None:
    vault = make_vault(tmp_path, "Text")
    write_file(vault, "inner/docs.jsonl", format_json_lines({"id": "7", "text": "Line."}))
    await ingest_cleanly(ctx, vault / "inner")
    await ingest_cleanly(ctx, vault)
    before = await read_stored_texts(ctx)

    archive = tmp_path / path
    archive.parent.mkdir(exist_ok=True)
    vault.rename(archive)
    write_file(archive, "0.md", "Edited.")
    report = await ingest_cleanly(ctx, archive)
    assert report.note == "vault is now called archive: its sources keep their ids."
    after = await read_stored_texts(ctx)
    assert after.keys() == before.keys()
    assert len(after.items() & before.items()) == 4  # all but the edited one

    (archive / "1.md").unlink()
    assert (await ingest_cleanly(ctx, archive)).counts == {"read": 4, "sources": 1, "deleted": 1}

    namesake = make_vault(tmp_path / "other", "Other")
    note = "Another folder is called vault: this one is vault-2."
    assert (await ingest_cleanly(ctx, namesake)).note == note

    archive.rename(tmp_path / "vault")
    report = await ingest_cleanly(ctx, tmp_path / "vault")
    assert report.counts == {"read": 4}
    assert (await ingest_cleanly(ctx, tmp_path / "vault")).note == ""
    assert [root.former_name for root in await read_roots(ctx)] == ["", "", ""]


async def test_a_folder_does_not_move_onto_one_that_contains_another_root(
    ctx: Context, tmp_path: Path
) -> None:
    """The renamed folder has a file with the name of one in the other root."""
    first = write_file(tmp_path, "k/A/n.md", "First.").parent
    second = write_file(tmp_path, "k/B/A/n.md", "Second.").parents[1]
    for folder in (first, second):
        await ingest_cleanly(ctx, folder)
    before = await read_stored_texts(ctx)

    second.rename(tmp_path / "k/Bx")
    assert (await ingest_cleanly(ctx, tmp_path / "k")).note == ""
    assert await read_stored_texts(ctx) == before

    (first / "n.md").write_text("Edited.")
    await ingest_cleanly(ctx, tmp_path / "k")
    assert sorted((await read_stored_texts(ctx)).values()) == ["Edited.", "Second."]


async def test_a_copy_of_an_existing_folder_is_a_separate_root(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path, "Text")
    await ingest_cleanly(ctx, vault)
    shutil.copytree(vault, tmp_path / "copy")
    for _ in range(2):
        report = await ingest_cleanly(ctx, tmp_path / "copy")
        assert report.note == ""
        assert len(await read_stored_texts(ctx)) == 8
        assert (await ingest_cleanly(ctx, vault)).counts == {"read": 4}


@pytest.mark.parametrize("file_count", [1, 3])
async def test_a_folder_with_few_files_of_a_missing_one_is_another_root(
    ctx: Context, tmp_path: Path, file_count: int
) -> None:
    """The other folder has one of the four files of the missing one, alone or among new ones."""
    vault = make_vault(tmp_path, "Text")
    await ingest_cleanly(ctx, vault)
    vault.rename(tmp_path / "gone-from-here")
    write_file(tmp_path, "other/0.md", "Text 0.")
    for number in range(1, file_count):
        write_file(tmp_path, f"other/{number}.md", f"Another {number}.")
    assert (await ingest_cleanly(ctx, tmp_path / "other")).note == ""
    assert len(await read_stored_texts(ctx)) == 4 + file_count


async def test_a_moved_namesake_folder_keeps_its_number(ctx: Context, tmp_path: Path) -> None:
    for name in ("a/vault", "b/vault", "vault-2"):
        await ingest_cleanly(ctx, write_file(tmp_path, f"{name}/note.md", name).parent)
    shutil.move(tmp_path / "b", tmp_path / "d")
    assert (await ingest_cleanly(ctx, tmp_path / "d/vault")).counts == {"read": 1}


async def test_an_unmounted_folder_loses_nothing_to_a_namesake(
    ctx: Context, tmp_path: Path
) -> None:
    disk = make_vault(tmp_path / "disk", "First")
    await ingest_cleanly(ctx, disk)

    (tmp_path / "disk").rename(tmp_path / "unplugged")
    report = await ingest_cleanly(ctx, make_vault(tmp_path / "home", "Second"))
    assert report.note == "Another folder is called vault: this one is vault-2."

    (tmp_path / "unplugged").rename(tmp_path / "disk")
    assert (await ingest_cleanly(ctx, disk)).counts == {"read": 4}
    assert len(await read_stored_texts(ctx)) == 8


async def test_unmounted_folders_are_not_swapped(ctx: Context, tmp_path: Path) -> None:
    for name in ("a", "b"):
        await ingest_cleanly(ctx, make_vault(tmp_path / name, name))
    before = await read_stored_texts(ctx)
    for name in ("b", "a"):
        (tmp_path / name).rename(tmp_path / f"{name}-elsewhere")

    for name in ("b", "a"):
        report = await ingest_cleanly(ctx, tmp_path / f"{name}-elsewhere/vault")
        assert report.counts == {"read": 4}
    assert await read_stored_texts(ctx) == before


@pytest.mark.parametrize(("edit_count", "is_moved"), [(2, True), (3, False)])
async def test_a_folder_counts_as_moved_if_half_its_texts_are_stored(
    ctx: Context, tmp_path: Path, edit_count: int, *, is_moved: bool
) -> None:
    await ingest_cleanly(ctx, make_vault(tmp_path / "old", "Old"))
    (tmp_path / "old").rename(tmp_path / "new")
    vault = tmp_path / "new/vault"
    for number in range(edit_count):
        write_file(vault, f"{number}.md", f"Edited {number}.")
    await ingest_cleanly(ctx, vault)
    assert len(await read_stored_texts(ctx)) == (4 if is_moved else 8)


async def test_a_moved_folder_of_json_lines_is_recognized(ctx: Context, tmp_path: Path) -> None:
    line = format_json_lines({"id": "7", "text": "Line."})
    data = write_file(tmp_path, "old/data/docs.jsonl", line).parent
    write_export(data, make_readwise_book())
    await ingest_cleanly(ctx, data)
    (tmp_path / "old").rename(tmp_path / "new")
    assert (await ingest_cleanly(ctx, tmp_path / "new/data")).counts == {"read": 2}


async def test_exports_do_not_show_that_a_folder_has_moved(ctx: Context, tmp_path: Path) -> None:
    for name in ("old", "new"):
        folder = write_file(tmp_path, f"{name}/vault/note.md", f"{name}.").parent
        write_export(folder, make_readwise_book())
        await ingest_cleanly(ctx, folder)
        shutil.rmtree(folder)
    assert {"old.", "new."} < set((await read_stored_texts(ctx)).values())  # and the book


async def test_a_single_file_does_not_take_over_a_moved_folder(
    ctx: Context, tmp_path: Path
) -> None:
    await ingest_cleanly(ctx, make_vault(tmp_path / "old", "Same"))
    (tmp_path / "old").rename(tmp_path / "new")
    note = tmp_path / "new/vault/0.md"
    await ingest_cleanly(ctx, note)
    assert [root.whole for root in await read_roots(ctx)] == [True, False]


async def test_exports_in_namesake_folders_need_no_number(ctx: Context, tmp_path: Path) -> None:
    await ingest_cleanly(ctx, write_export(tmp_path, make_readwise_book()))
    namesake = tmp_path / "other" / tmp_path.name
    report = await ingest_cleanly(ctx, write_export(namesake, make_readwise_book(user_book_id=8)))
    assert report.note == ""


async def test_a_folder_name_that_is_not_utf_8_is_kept(ctx: Context, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9 \xc3\xb6")
    try:
        write_file(folder, "note.md", "Words.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    await ingest_cleanly(ctx, folder)
    assert [root.path for root in await read_roots(ctx)] == [folder]
    assert (await ingest_cleanly(ctx, folder / "note.md")).note == ""

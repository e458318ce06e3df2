"""A folder is ingested repeatedly: renamed files keep their sources, missing ones are forgotten.

A forgotten source is deleted together with its chunks, and is restored if its text returns. A card
is the summary of a chunk, which would cost a call of a model to make again.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from functions.jobs.ingest.folder import ingest_confirmed
from shared.core.errors import InvalidInput
from shared.knowledge.export_lines import HEADER
from shared.runtime.context import Context
from shared.runtime.job import Failure
from tests.support.followed_folder import (
    NOTE_NUMBERS,
    compare,
    ingest_cleanly,
    make_vault,
    read_source_ids,
    read_sources_by_text,
    run_ingest,
)
from tests.support.jobs import make_one_step_budget
from tests.support.knowledge import set_fields
from tests.support.source_files import (
    format_json_lines,
    write_file,
)
from tests.support.stored_documents import read_chunks, read_chunks_by_text, read_documents

CARD: Final = {"summary": "Shorten sail in time.", "takeaways": ["Reef early"]}
"""A card that tests give to a passage, to see whether it is kept."""


def exclude_texts(sources: dict[str, str], *texts: str) -> dict[str, str]:
    """Return the result of `read_sources_by_text` without these texts."""
    return {text: source_id for text, source_id in sources.items() if text not in texts}


async def add_card(ctx: Context, text: str) -> None:
    """Give a card to the passage with this text."""
    chunks = await read_chunks(ctx)
    [chunk_id] = [chunk_id for chunk_id, chunk in chunks.items() if chunk["content"] == text]
    await set_fields(ctx, f"chunks/{chunk_id}", {"knowledge_card": CARD})


async def read_card(ctx: Context, text: str) -> Any:
    """Return the card of the passage with this text."""
    return (await read_chunks_by_text(ctx))[text].get("knowledge_card")


async def test_files_moved_to_the_cloud_are_kept(ctx: Context, tmp_path: Path) -> None:
    """ICloud leaves `.1.md.icloud` in place of `1.md`."""
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in NOTE_NUMBERS:
        (vault / f"{number}.md").rename(vault / f".{number}.md.icloud")
        report = await ingest_cleanly(ctx, vault)
        assert [warning.name for warning in report.warnings] == [
            f"{name}.md" for name in range(1, number + 1)
        ]
    assert await read_sources_by_text(ctx) == before
    (vault / ".1.md.icloud").unlink()
    await run_ingest(ctx, vault)
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 1.")


async def test_an_emptied_subfolder_keeps_its_sources(ctx: Context, tmp_path: Path) -> None:
    """A mount point is empty while its disk is missing."""
    vault = make_vault(tmp_path)
    write_file(vault, "disk/deep/a.md", "On a disk.")
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    shutil.rmtree(vault / "disk/deep")
    report = await ingest_cleanly(ctx, vault)
    assert [warning.name for warning in report.warnings] == ["disk"]
    assert await read_sources_by_text(ctx) == before
    (vault / "disk").rmdir()
    assert (await ingest_cleanly(ctx, vault)).warnings == []
    assert await read_sources_by_text(ctx) == exclude_texts(before, "On a disk.")


async def test_a_name_in_another_unicode_form_is_the_same_source(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    decomposed = write_file(vault, "Cafe\u0301.md", "Espresso.")
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    composed = write_file(vault, "Caf\u00e9.md", "Espresso.")
    assert len((await ingest_cleanly(ctx, vault)).warnings) == 1
    assert await read_sources_by_text(ctx) == before
    decomposed.unlink()
    composed.write_text("Filter.")
    await ingest_cleanly(ctx, vault)
    assert (await read_sources_by_text(ctx))["Filter."] == before["Espresso."]
    write_file(vault, "Cafe\u0301.md", "Another.")
    assert len((await ingest_cleanly(ctx, vault)).warnings) == 1
    assert len(await read_sources_by_text(ctx)) == len(before) + 1


async def test_missing_files_are_forgotten_until_they_return(ctx: Context, tmp_path: Path) -> None:
    """A file that returns under another name gets its id and its card back."""
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_sources_by_text(ctx)
    (vault / "1.md").rename(tmp_path / "1.md")
    (vault / "2.md").unlink()
    report = await ingest_cleanly(ctx, vault)
    assert report.counts == {"read": 4, "sources": 2, "deleted": 2}
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 1.", "Note 2.")
    assert len(await read_documents(ctx, "forgotten_sources")) == 2
    assert (await ingest_cleanly(ctx, vault)).counts == {"read": 4}

    (tmp_path / "1.md").rename(vault / "returned.md")
    assert (await ingest_cleanly(ctx, vault)).counts["restored"] == 1
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 2.")
    assert await read_card(ctx, "Note 1.") == CARD


async def test_renamed_and_moved_files_keep_their_ids_and_cards(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "copy.md", "Note 2.")
    await ingest_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_chunks(ctx)

    (vault / "1.md").rename(vault / "other.txt")
    (vault / "sub").mkdir()
    (vault / "2.md").rename(vault / "sub/2.md")
    report = await ingest_cleanly(ctx, vault)

    # the title of `other`, and the folder of `2`
    assert report.counts == {"read": 7, "sources": 2, "updated": 2}
    stored = await read_chunks(ctx)
    assert stored.keys() == before.keys()
    assert await read_card(ctx, "Note 1.") == CARD
    assert {chunk["title"] for chunk in stored.values()} >= {"other", "2", "copy"}
    assert (await ingest_cleanly(ctx, vault)).counts == {"read": 7}


def rename_files(vault: Path, names: dict[str, str]) -> None:
    """Rename files, old name to new name, together: two of them may exchange their names.

    A file that has one of the new names and is not renamed is replaced.
    """
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
async def test_files_that_exchange_names_keep_their_ids(
    ctx: Context, tmp_path: Path, names: dict[str, str]
) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    await add_card(ctx, "Note 1.")
    before = await read_chunks(ctx)

    rename_files(vault, names)
    changes = await compare(ctx, vault)
    assert changes.renamed == {f"{vault}/{new}": f"{vault}/{old}" for old, new in names.items()}
    assert changes.new == []
    assert changes.edited == []

    for _ in range(2):
        assert (await ingest_cleanly(ctx, vault)).counts["deleted"] == 0
        assert (await read_chunks(ctx)).keys() == before.keys()
    assert await read_card(ctx, "Note 1.") == CARD
    assert await read_documents(ctx, "forgotten_sources") == {}


@pytest.mark.parametrize("seed", range(3))
async def test_files_renamed_at_random_keep_their_ids(
    ctx: Context, tmp_path: Path, seed: int
) -> None:
    generator = random.Random(seed)  # noqa: S311 - no secret
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for _ in range(5):
        old_names = sorted(path.name for path in vault.iterdir())
        new_names = generator.sample([f"{number}.md" for number in range(1, 9)], len(old_names))
        rename_files(vault, dict(zip(old_names, new_names, strict=True)))
        await ingest_cleanly(ctx, vault)
        assert await read_sources_by_text(ctx) == before


async def test_a_text_replaced_by_renamed_files_is_forgotten(ctx: Context, tmp_path: Path) -> None:
    """The second note is deleted, and each later one gets the name of the one before it.

    Then the files get their former names, and the second note returns.
    """
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    await add_card(ctx, "Note 2.")
    before = await read_sources_by_text(ctx)
    names = {f"{number}.md": f"{number - 1}.md" for number in range(3, 7)}

    rename_files(vault, names)
    changes = await compare(ctx, vault)
    assert changes.missing == []
    assert changes.edited == []
    assert changes.find_missing().former_file_count == 6
    assert changes.missing_ids == {before["Note 2."]}
    await run_ingest(ctx, vault, frozenset())
    assert await read_sources_by_text(ctx) == before

    await ingest_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 2.")
    assert (await ingest_cleanly(ctx, vault)).counts == {"read": 5}

    rename_files(vault, {new: old for old, new in names.items()})
    write_file(vault, "2.md", "Note 2.")
    await ingest_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == before
    assert await read_card(ctx, "Note 2.") == CARD


async def test_forgetting_many_replaced_texts_must_be_confirmed(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    rename_files(vault, {"1.md": "4.md", "2.md": "5.md", "3.md": "6.md"})
    reason = (
        "3 of 6 texts disappeared, and nothing is forgotten: to forget their texts, run"
        " .venv/bin/carrel ingest FOLDER --yes"
    )
    for _ in range(2):
        assert (await run_ingest(ctx, vault)).failures == [Failure("vault", reason)]
        assert await read_sources_by_text(ctx) == before
        rename_files(vault, {"4.md": "5.md", "5.md": "4.md"})

    changes = await compare(ctx, vault)
    assert (await run_ingest(ctx, vault, changes.missing_ids)).failures == []
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 4.", "Note 5.", "Note 6.")


async def test_files_of_one_text_keep_their_ids_after_a_swap(ctx: Context, tmp_path: Path) -> None:
    """`0.md` and `2.md` have one text. `2.md` swaps names with `1.md`, and `0.md` is edited."""
    vault = make_vault(tmp_path)
    write_file(vault, "0.md", "Note 2.")
    await ingest_cleanly(ctx, vault)
    before = await read_documents(ctx, "sources")
    before_by_text = await read_sources_by_text(ctx)

    rename_files(vault, {"1.md": "2.md", "2.md": "1.md"})
    write_file(vault, "0.md", "Edited.")
    changes = await compare(ctx, vault)
    assert changes.renamed == {f"{vault}/1.md": f"{vault}/2.md", f"{vault}/2.md": f"{vault}/1.md"}
    assert changes.edited == [f"{vault}/0.md"]

    await ingest_cleanly(ctx, vault)
    assert (await read_documents(ctx, "sources")).keys() == before.keys()
    assert (await read_sources_by_text(ctx))["Note 1."] == before_by_text["Note 1."]


async def test_a_new_file_at_a_former_path_is_another_source(ctx: Context, tmp_path: Path) -> None:
    """So it is beside renamed files, and in a later run."""
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    rename_files(vault, {f"{number}.md": f"{number + 1}.md" for number in NOTE_NUMBERS})
    write_file(vault, "1.md", "Inserted.")
    await ingest_cleanly(ctx, vault)
    (vault / "2.md").rename(vault / "old.md")
    await ingest_cleanly(ctx, vault)
    write_file(vault, "2.md", "Another text.")
    for _ in range(2):
        await ingest_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert exclude_texts(stored, "Inserted.", "Another text.") == before
    assert len({*stored.values()}) == len(before) + 2


async def test_edited_files_are_not_taken_for_moved_ones(ctx: Context, tmp_path: Path) -> None:
    """Files are edited, and another and a new one get their former texts, as from a template."""
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    write_file(vault, "1.md", "Edited.")
    write_file(vault, "2.md", "Note 1.")
    write_file(vault, "backup.md", "Note 3.")
    write_file(vault, "3.md", "Note 3, edited.")
    await ingest_cleanly(ctx, vault)
    stored = await read_sources_by_text(ctx)
    assert stored["Edited."] == before["Note 1."]
    assert stored["Note 1."] == before["Note 2."]
    assert stored["Note 3, edited."] == before["Note 3."]
    assert stored["Note 3."] not in before.values()


async def test_forgetting_over_a_third_of_the_files_must_be_confirmed(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    for number in (1, 2, 3):
        (vault / f"{number}.md").unlink()
    write_file(vault, "new.md", "New.")

    for count in (6, 7):  # the new file is known in the second run
        reason = (
            f"3 of {count} files disappeared, and nothing is forgotten: to forget their texts, run"
            " .venv/bin/carrel ingest FOLDER --yes"
        )
        assert (await run_ingest(ctx, vault)).failures == [Failure("vault", reason)]
        assert len(await read_sources_by_text(ctx)) == 7

    changes = await compare(ctx, vault)
    two_of_three = frozenset(sorted(changes.missing_ids)[:2])
    assert (await run_ingest(ctx, vault, two_of_three)).failures == []
    assert len(await read_sources_by_text(ctx)) == 5

    await run_ingest(ctx, vault, changes.missing_ids)
    assert set(await read_sources_by_text(ctx)) == {"Note 4.", "Note 5.", "Note 6.", "New."}


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_forgetting_an_emptied_folder_must_be_confirmed(
    ctx: Context, tmp_path: Path, *, is_deleted: bool
) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    shutil.rmtree(vault)
    if not is_deleted:
        vault.mkdir()

    with pytest.raises(InvalidInput):
        await run_ingest(ctx, vault)
    assert len(await read_sources_by_text(ctx)) == 6

    changes = await compare(ctx, vault)
    await run_ingest(ctx, vault, changes.missing_ids)
    assert await read_sources_by_text(ctx) == {}
    with pytest.raises(InvalidInput):
        await compare(ctx, vault)

    make_vault(tmp_path)
    assert (await ingest_cleanly(ctx, vault)).counts == {"read": 6, "sources": 6, "restored": 6}


async def test_a_run_out_of_time_leaves_forgetting_to_the_next_run(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    (vault / "1.md").unlink()
    missing = (await compare(ctx, vault)).missing_ids
    report = await ingest_confirmed(str(vault), missing, ctx, make_one_step_budget())
    assert not report.finished
    assert len(await read_sources_by_text(ctx)) == 6
    await ingest_cleanly(ctx, vault)
    assert len(await read_sources_by_text(ctx)) == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_files_in_an_unreadable_folder_are_not_forgotten(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "sub/a.md", "In a folder.")
    await ingest_cleanly(ctx, vault)
    (vault / "sub").chmod(0)
    assert len((await run_ingest(ctx, vault)).failures) == 1
    (vault / "sub").chmod(0o700)
    assert len(await read_sources_by_text(ctx)) == 7


async def test_a_file_that_becomes_unreadable_is_not_forgotten(
    ctx: Context, tmp_path: Path
) -> None:
    """Each note is replaced: by a link to nowhere, a circular link, a binary file or a folder."""
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)

    for number in (1, 2, 3, 4):
        (vault / f"{number}.md").unlink()
    (vault / "1.md").symlink_to(vault / "nowhere.md")
    (vault / "2.md").symlink_to(vault / "2.md")
    write_file(vault, "3.md", b"\0\0\0")
    (vault / "4.md").mkdir()
    await run_ingest(ctx, vault)
    assert await read_sources_by_text(ctx) == before

    write_file(vault, "4.md/inner.md", "Inner.")
    (vault / "loop").symlink_to(vault)
    await run_ingest(ctx, vault)
    assert (await read_sources_by_text(ctx)).items() >= before.items()


async def test_ingest_of_one_file_or_subfolder_forgets_nothing_else(
    ctx: Context, tmp_path: Path
) -> None:
    vault = make_vault(tmp_path)
    write_file(vault, "sub/a.md", "In a folder.")
    write_file(vault, "sub/b.md", "Here, too.")
    await ingest_cleanly(ctx, vault)
    (vault / "1.md").unlink()
    (vault / "2.md").rename(vault / "sub/moved.md")
    before = await read_sources_by_text(ctx)

    assert (await ingest_cleanly(ctx, vault / "3.md")).counts == {"read": 1}
    assert (await ingest_cleanly(ctx, vault / "sub")).counts["updated"] == 1
    assert await read_sources_by_text(ctx) == before

    await ingest_cleanly(ctx, vault)
    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 1.")


async def test_an_outer_folder_includes_a_followed_inner_one(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in range(10):
        write_file(tmp_path, f"{number}.md", f"Outer {number}.")
    await ingest_cleanly(ctx, tmp_path)

    (vault / "1.md").rename(tmp_path / "moved.md")
    (vault / "2.md").rename(vault / "renamed.md")
    (vault / "3.md").unlink()
    for path in (tmp_path, vault, tmp_path):
        await ingest_cleanly(ctx, path)

    stored = await read_sources_by_text(ctx)
    outer_texts = [f"Outer {number}." for number in range(10)]
    assert exclude_texts(stored, *outer_texts) == exclude_texts(before, "Note 3.")
    assert len(stored) == 15


async def test_a_moved_folder_keeps_the_ids_of_renamed_files(ctx: Context, tmp_path: Path) -> None:
    vault = make_vault(tmp_path / "a")
    await ingest_cleanly(ctx, vault)
    before = await read_sources_by_text(ctx)
    for number in NOTE_NUMBERS:
        (vault / f"{number}.md").rename(vault / f"renamed {number}.md")
    await ingest_cleanly(ctx, vault)

    (tmp_path / "b").mkdir()
    moved_vault = vault.rename(tmp_path / "b/vault")
    (moved_vault / "renamed 1.md").unlink()
    await ingest_cleanly(ctx, moved_vault)

    assert await read_sources_by_text(ctx) == exclude_texts(before, "Note 1.")


async def test_an_export_of_carrel_is_not_followed(ctx: Context, tmp_path: Path) -> None:
    """Such an export is a folder; a source that is missing from a newer one is not forgotten."""
    write_file(tmp_path, "carrel-export.json", "{}")
    for source_id in ("first", "second"):
        source, chunk = {"source_id": source_id, "title": "A"}, {"start": 0, "text": "One."}
        lines = format_json_lines(HEADER, {"source": source}, {"chunk": chunk}, {"chunks": 1})
        write_file(tmp_path, "knowledge-00001.jsonl", lines)
        await ingest_cleanly(ctx, tmp_path)
    assert await read_source_ids(ctx) == {"first", "second"}
    assert not (await compare(ctx, tmp_path)).missing_ids

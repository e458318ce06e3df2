"""A followed folder is read when it has changed and is at rest, and what vanished is kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.jobs.ingest.folder import set_watched
from functions.jobs.ingest.listing import take_fingerprint
from infra.local import folder_watch
from infra.local.scheduler import wake
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.followed_folder import make_vault, read_source_ids
from tests.support.scheduling import (
    count_reads,
    count_runs,
    follow,
    hurry,
    load_folder,
    run_scheduler,
    wait_for_texts,
    wait_until,
)
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunk_texts

NOTES = tuple(f"Note {number}." for number in range(1, 7))


@pytest.fixture(autouse=True)
def vault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with six notes, and a state folder without a working process."""
    hurry(monkeypatch, tmp_path / "state")
    return make_vault(tmp_path)


async def test_what_an_editor_saves_by_rename_is_read(app: App, ctx: Context, vault: Path) -> None:
    """Its lock and its backups are hidden, or are no texts."""
    await follow(ctx, vault)
    before = await read_source_ids(ctx)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        for number in (1, 2):
            write_file(vault, f".{number}.md.swp", "Vim was here.")
            (vault / f"{number}.md").rename(vault / f"{number}.md~")
            draft = write_file(vault, f".{number}.md.draft", f"Edited note {number}.")
            draft.rename(vault / f"{number}.md")
            (vault / f"{number}.md~").unlink()
        await wait_for_texts(ctx, "Edited note 1.", "Edited note 2.", *NOTES[2:])
        assert await read_source_ids(ctx) == before
        assert await count_reads(ctx) == 1

        write_file(vault, "sub/7.md", "Note 7.")
        await wait_for_texts(ctx, "Edited note 1.", "Edited note 2.", *NOTES[2:], "Note 7.")
    assert (await load_folder(ctx)).problems == ()


async def is_idle(ctx: Context) -> bool:
    """Return whether all jobs have run that the start of a process begins with."""
    return (await count_runs(ctx))["repair"] > 0


async def test_a_file_that_grows_is_read_once_and_whole(
    app: App, ctx: Context, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync client writes a piece between any two looks, until it has written all."""
    await follow(ctx, vault)
    pieces = iter([f"Piece {number}. " for number in range(10)])

    def look_and_grow(folder: Path) -> str:
        fingerprint = take_fingerprint(folder)
        with (vault / "7.md").open("a") as file:
            file.write(next(pieces, ""))
        return fingerprint

    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        monkeypatch.setattr(folder_watch, "take_fingerprint", look_and_grow)
        write_file(vault, "7.md", "The beginning. ")
        whole = "The beginning. " + "".join(f"Piece {number}. " for number in range(10))
        await wait_for_texts(ctx, *NOTES, whole.strip())
    assert await count_reads(ctx) == 1


async def test_an_unchanged_folder_is_not_read_again(
    app: App, ctx: Context, vault: Path, clock: SettableClock
) -> None:
    """Neither at the start of a process nor when the job is due, nor for hidden files."""
    await follow(ctx, vault)
    write_file(vault, ".obsidian/workspace.json", "{}")
    clock.now = clock()
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        write_file(vault, ".obsidian/workspace.json", '{"main": {}}')
        clock.advance(hours=1)

        async def is_due_again() -> bool:
            return (await count_runs(ctx))["ingest"] > 1

        await wait_until(is_due_again)
    assert await count_reads(ctx) == 0


async def test_what_changed_while_nothing_ran_is_read_at_the_start(
    app: App, ctx: Context, vault: Path
) -> None:
    await follow(ctx, vault)
    write_file(vault, "1.md", "Edited.")
    async with run_scheduler(app):
        await wait_for_texts(ctx, "Edited.", *NOTES[1:])
    assert await count_reads(ctx) == 1


async def test_a_vanished_folder_is_kept_told_and_read_when_it_is_back(
    app: App, ctx: Context, vault: Path, tmp_path: Path
) -> None:
    """As if its disk had been taken out. Afterwards, its changes are read as before."""
    await follow(ctx, vault)
    before = await read_source_ids(ctx)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        elsewhere = vault.rename(tmp_path / "elsewhere")  # noqa: ASYNC240

        async def is_told() -> bool:
            return bool((await load_folder(ctx)).problems)

        await wait_until(is_told)
        root = await load_folder(ctx)
        assert root.list_problems()[0].startswith("cannot be opened, as if its disk")
        assert "6 of 6 files disappeared, and nothing is forgotten" in root.problems[0]
        assert await read_source_ids(ctx) == before

        elsewhere.rename(vault)
        wake()

        async def is_well() -> bool:
            return (await load_folder(ctx)).list_problems() == []

        await wait_until(is_well)
        write_file(vault, "1.md", "Edited.")
        await wait_for_texts(ctx, "Edited.", *NOTES[1:])
    assert await read_source_ids(ctx) == before


async def test_many_missing_files_are_kept_and_few_are_forgotten(
    app: App, ctx: Context, vault: Path
) -> None:
    """More than a third must be confirmed, which only the command asks for."""
    await follow(ctx, vault)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        (vault / "6.md").unlink()
        await wait_for_texts(ctx, *NOTES[:5])
        (vault / "4.md").unlink()
        (vault / "5.md").unlink()

        async def is_told() -> bool:
            return bool((await load_folder(ctx)).problems)

        await wait_until(is_told)
    [problem] = (await load_folder(ctx)).problems
    assert problem.startswith("vault: 2 of 5 files disappeared, and nothing is forgotten")
    assert await read_chunk_texts(ctx) == sorted(NOTES[:5])


async def test_a_placeholder_is_kept_and_told(app: App, ctx: Context, vault: Path) -> None:
    """A cloud drive moves a file off the disk."""
    await follow(ctx, vault)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        (vault / "1.md").rename(vault / ".1.md.icloud")

        async def is_told() -> bool:
            return bool((await load_folder(ctx)).problems)

        await wait_until(is_told)
    [problem] = (await load_folder(ctx)).problems
    assert problem.startswith("1.md: is not on this computer, only in the cloud")
    assert await read_chunk_texts(ctx) == sorted(NOTES)


@pytest.mark.parametrize("cause", ["a network's drive", "no watches left"])
async def test_a_folder_without_events_is_looked_at(
    app: App, ctx: Context, vault: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    def refuse(*_: object, **__: object) -> Iterator[set[tuple[int, str]]]:
        raise OSError(28, "No space left on device")

    if cause == "no watches left":
        monkeypatch.setattr(folder_watch, "watch", refuse)
    else:
        monkeypatch.setattr(folder_watch, "find_remote_disk", lambda *_: "nfs4")
    monkeypatch.setattr(folder_watch, "LOOK_SECONDS", 0)
    await follow(ctx, vault)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        write_file(vault, "1.md", "Edited.")
        wake()  # as a new minute would
        await wait_for_texts(ctx, "Edited.", *NOTES[1:])


async def test_a_folder_may_no_longer_be_watched(app: App, ctx: Context, vault: Path) -> None:
    await follow(ctx, vault)
    async with run_scheduler(app):
        await wait_until(lambda: is_idle(ctx))
        assert await set_watched(vault, ctx.database, watched=False)
        assert not await set_watched(vault, ctx.database, watched=False)
        write_file(vault, "1.md", "Edited.")
        runs = (await count_runs(ctx))["index"]
        wake()

        async def has_run() -> bool:
            return (await count_runs(ctx))["index"] > runs

        await wait_until(has_run)
    assert await read_chunk_texts(ctx) == sorted(NOTES)

"""`carrel materials` lists and erases the workspaces of users.

A workspace contains the texts (materials) that a user gave to the tool `extract_key_info` under one
name, the argument `task_id`. A text is stored as a document, which has parts.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.caller import Caller
from shared.firestore.writes import Create
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.commands import expect_error, run_carrel, run_in_database, run_with_app
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import BREAD, MAST
from tests.support.workspaces import (
    make_erasure,
    open_workspace,
    read_write_times,
    upload_text,
)

ANN = Caller.of("ann@example.com")
BOB = Caller.of("bob")


def upload(task: str, *texts: str, caller: Caller = ANN, now: datetime | None = None) -> None:
    """Upload texts to a workspace, with idempotency keys."""

    async def upload_texts(app: App) -> None:
        for text in texts or (MAST,):
            await upload_text(app, task, text, caller, idempotency_key=text + task)

    run_with_app(upload_texts, clock=SettableClock(now), embedder=WordEmbedder())


def count_documents() -> Counter[str]:
    """Count the documents of the database by user."""
    paths = run_in_database(lambda ctx: read_write_times(ctx, "users/"))
    return Counter(path.split("/", 3)[1] for path in paths)


@pytest.mark.requirement("001-O3")
def test_erasing_a_workspace_prints_a_receipt() -> None:
    upload("notes", MAST, BREAD, f"{MAST}\n\n{BREAD}")
    upload("other")
    upload("notes", caller=BOB)
    before = count_documents()
    start = datetime.now(UTC).replace(microsecond=0)

    result = run_carrel("materials", "erase", "ann@example.com", "notes", "--yes")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    erased = lines.pop("erased").split(maxsplit=1)[1].replace(" UTC", "Z")
    assert start <= datetime.fromisoformat(erased) <= datetime.now(UTC)
    assert lines == {
        "user": "ann@example.com",
        "documents": "3",
        "parts": "3",
        "answers": "3 stored for repeated calls",
        "workspace": "notes",
        "workspaces": "1",
    }
    # In the order of the receipt, without the user: 3 + 6 + 2 + 3 + 1.
    assert before - count_documents() == {"ann@example.com": 10}
    assert count_documents()["bob"] == before["bob"]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_nothing_is_erased_without_confirmation(answer: str) -> None:
    upload("notes")
    before = count_documents()
    erase = ("materials", "erase", "ann@example.com", "notes")
    result = run_carrel(*erase, answer=answer)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Erase 1 document of ann@example.com in the workspace notes?" in result.stderr
    assert count_documents() == before


def test_an_interrupted_erasure_is_shown_and_can_be_finished() -> None:
    upload("notes")
    begun = run_in_database(lambda ctx: make_erasure(ctx, "notes", "ann@example.com").begin())
    assert begun
    assert "being erased" in run_carrel("materials", "list", "ann@example.com").stdout
    receipt = run_carrel("materials", "erase", "ann@example.com", "notes", answer="y\n").stdout
    for line in ("documents      1", "parts          1", "answers        1 ", "workspaces     1"):
        assert f"\n{line}" in receipt
    assert count_documents().total() == 0


def test_names_of_workspaces_are_normalized_as_in_tools() -> None:
    upload(" my / notes ")
    upload("my---notes")
    result = run_carrel("materials", "erase", "ann@example.com", "my / notes", "--yes")
    task = result.stdout.splitlines()[1].split()[1]
    assert task.startswith("my---notes-")
    error = expect_error("materials", "erase", "ann@example.com", task)
    assert f"has no workspace {task}. Workspaces: my---notes." in error


def test_the_error_for_an_unknown_workspace_names_the_latest() -> None:
    error = expect_error("materials", "erase", "bob", "notes", "--yes")
    assert "bob has no materials in any workspace." in error

    start = datetime.now(UTC)
    for number in range(12):
        upload(f"task-{number}", now=start + timedelta(minutes=number))
    upload("notes", caller=BOB)
    before = count_documents()
    error = expect_error("materials", "erase", "ann@example.com", "notes", "--yes")
    names = ", ".join(f"task-{number}" for number in range(11, 1, -1))
    assert f"ann@example.com has no workspace notes. Workspaces: {names} and more" in error
    assert count_documents() == before


def test_an_invalid_user_or_workspace_is_refused() -> None:
    assert "'Ann' is not a user id" in expect_error("materials", "erase", "Ann", "notes", "--yes")
    assert "'a/b' is not a user id" in expect_error("materials", "list", "a/b")
    error = expect_error("materials", "erase", "ann", " ", "--yes", code=2)
    assert "must not be blank" in error


def test_the_list_shows_the_last_use_and_size_of_each_workspace() -> None:
    start = datetime(2026, 3, 10, 8, 30, tzinfo=UTC)
    upload("sailing", MAST, now=start)
    upload("baking", BREAD, f"{BREAD}\n\n{MAST}", now=start + timedelta(days=1))
    upload("sailing", caller=BOB)
    assert [
        line.split()
        for line in run_carrel("materials", "list", "ann@example.com").stdout.splitlines()
    ] == [
        ["TASK_ID", "LAST", "USED", "MATERIALS"],
        ["baking", "2026-03-11", "08:30", "2"],
        ["sailing", "2026-03-10", "08:30", "1"],
    ]
    assert (
        run_carrel("materials", "list", "eve").stdout == "eve has no materials in any workspace.\n"
    )


def test_a_long_list_is_cut_to_the_latest_50_workspaces() -> None:
    async def store_workspaces(ctx: Context) -> None:
        writes = []
        for number in range(51):
            used = datetime(2026, 3, 10, 8, number, tzinfo=UTC)
            reference = open_workspace(ctx, f"task-{number}", "bob").reference
            writes.append(Create(reference, {"created_at": used, "touched_at": used}))
        await ctx.database.commit(writes)

    run_in_database(store_workspaces)
    result = run_carrel("materials", "list", "bob")
    tasks = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert tasks == [f"task-{number}" for number in range(50, 0, -1)]
    assert result.stderr == "Only the 50 most recently used workspaces are listed.\n"


def test_the_purge_prints_what_it_deleted() -> None:
    upload("old", MAST, BREAD, now=datetime.now(UTC) - timedelta(days=91))
    upload("recent")
    deleted = "purge: 2 documents, 2 parts, 2 answers, 1 rag_tasks ("
    assert f"\n{deleted}" in run_carrel("jobs", "run", "purge").stdout
    assert "purge: nothing to do" in run_carrel("jobs", "run", "purge").stdout

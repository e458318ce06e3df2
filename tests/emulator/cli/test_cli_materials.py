"""`carrel materials` lists and erases the workspaces of users.

A workspace contains the texts (materials) that a user gave to the tool `extract_key_info` under one
name, the argument `task_id`. A text is stored as a document, which has parts.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.cli.main import main
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.firestore.writes import Create
from shared.runtime.context import App
from tests.support.clock import SettableClock
from tests.support.jobs import make_job_context
from tests.support.materials import BREAD, MAST
from tests.support.workspaces import (
    make_erasure,
    open_workspace,
    open_workspace_app,
    read_write_times,
    upload_text,
)

ANN = Caller.of("ann@example.com")
BOB = Caller.of("bob")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, project: str) -> None:
    """Use an empty database."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)


def run_carrel(*arguments: str, answer: str | None = None) -> Result:
    """Run the command in this process, and answer its question."""
    return CliRunner().invoke(main, ["materials", *arguments], input=answer)


def expect_error(*arguments: str) -> str:
    """Run a command that fails, and return its error."""
    result = run_carrel(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def run_in_database(
    work: Callable[[App], Awaitable[Any]], project: str, now: datetime | None = None
) -> Any:
    """Call an asynchronous function with an app whose clock shows a time; return its result."""

    async def run_work() -> Any:
        clock = SettableClock(now or datetime.now(UTC).replace(microsecond=0))
        async with open_workspace_app(Settings(google_cloud_project=project), clock) as app:
            return await work(app)

    return asyncio.run(run_work())


def upload(
    project: str, task: str, *texts: str, caller: Caller = ANN, now: datetime | None = None
) -> None:
    """Upload texts to a workspace, with idempotency keys."""

    async def upload_texts(app: App) -> None:
        for text in texts or (MAST,):
            await upload_text(app, task, text, caller, idempotency_key=text + task)

    run_in_database(upload_texts, project, now)


def count_documents(project: str) -> Counter[str]:
    """Count the documents of the database by user."""

    async def count(app: App) -> Counter[str]:
        paths = await read_write_times(make_job_context(app), "users/")
        return Counter(path.split("/", 3)[1] for path in paths)

    counts: Counter[str] = run_in_database(count, project)
    return counts


@pytest.mark.requirement("001-O3")
def test_erasing_a_workspace_prints_a_receipt(project: str) -> None:
    upload(project, "notes", MAST, BREAD, f"{MAST}\n\n{BREAD}")
    upload(project, "other")
    upload(project, "notes", caller=BOB)
    before = count_documents(project)
    start = datetime.now(UTC).replace(microsecond=0)

    result = run_carrel("erase", "ann@example.com", "notes", "--yes")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    erased = lines.pop("erased").split(maxsplit=1)[1].replace(" UTC", "Z")
    assert start <= datetime.fromisoformat(erased) <= datetime.now(UTC)
    assert lines == {
        "user": "ann@example.com",
        "documents": "3",
        "parts": "6",
        "passages": "2",
        "answers": "3 stored for repeated calls",
        "workspace": "notes",
        "workspaces": "1",
    }
    # In the order of the receipt, without the user: 3 + 6 + 2 + 3 + 1.
    assert before - count_documents(project) == {"ann@example.com": 15}
    assert count_documents(project)["bob"] == before["bob"]


def test_the_receipt_is_available_as_json(project: str) -> None:
    upload(project, "notes")
    receipt = json.loads(run_carrel("erase", "ann@example.com", "notes", "--yes", "--json").stdout)
    erased = datetime.fromisoformat(receipt.pop("erased_at"))
    assert erased.utcoffset() == timedelta()
    assert receipt == {
        "user": "ann@example.com",
        "task": "notes",
        "deleted": {"documents": 1, "parts": 2, "passages": 1, "answers": 1, "task": 1},
    }
    assert count_documents(project).total() == 0


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_nothing_is_erased_without_confirmation(project: str, answer: str) -> None:
    upload(project, "notes")
    before = count_documents(project)
    result = run_carrel("erase", "ann@example.com", "notes", answer=answer)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Erase 1 document of ann@example.com in the workspace notes?" in result.stderr
    assert count_documents(project) == before


def test_only_the_receipt_goes_to_standard_output(project: str) -> None:
    upload(project, "notes")
    result = run_carrel("erase", "ann@example.com", "notes", "--json", answer="y\n")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["task"] == "notes"


def test_names_of_workspaces_are_normalized_as_in_tools(project: str) -> None:
    upload(project, " my / notes ")
    upload(project, "my---notes")
    result = run_carrel("erase", "ann@example.com", "my / notes", "--yes", "--json")
    task = json.loads(result.stdout)["task"]
    assert task.startswith("my---notes-")
    error = expect_error("erase", "ann@example.com", task)
    assert f"has no workspace {task}. Workspaces: my---notes." in error


def test_the_error_for_an_unknown_workspace_names_the_latest(project: str) -> None:
    error = expect_error("erase", "bob", "notes", "--yes")
    assert "bob has no materials in any workspace." in error

    start = datetime.now(UTC)
    for number in range(12):
        upload(project, f"task-{number}", now=start + timedelta(minutes=number))
    upload(project, "notes", caller=BOB)
    before = count_documents(project)
    error = expect_error("erase", "ann@example.com", "notes", "--yes")
    names = ", ".join(f"task-{number}" for number in range(11, 1, -1))
    assert f"ann@example.com has no workspace notes. Workspaces: {names} and more" in error
    assert count_documents(project) == before


def test_an_invalid_user_or_workspace_is_refused() -> None:
    assert "'Ann' is not a user id" in expect_error("erase", "Ann", "notes", "--yes")
    assert "'a/b' is not a user id" in expect_error("list", "a/b")
    result = run_carrel("erase", "ann", " ", "--yes")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "must not be blank" in result.stderr


def test_an_interrupted_erasure_is_shown_and_can_be_finished(project: str) -> None:
    upload(project, "notes")

    async def begin(app: App) -> None:
        assert await make_erasure(make_job_context(app), "notes", "ann@example.com").begin()

    run_in_database(begin, project)
    assert "being erased" in run_carrel("list", "ann@example.com").stdout
    assert run_carrel("erase", "ann@example.com", "notes", "--yes").exit_code == 0
    assert count_documents(project).total() == 0


def test_the_list_shows_the_last_use_and_size_of_each_workspace(project: str) -> None:
    start = datetime(2026, 3, 10, 8, 30, tzinfo=UTC)
    upload(project, "sailing", MAST, now=start)
    upload(project, "baking", BREAD, f"{BREAD}\n\n{MAST}", now=start + timedelta(days=1))
    upload(project, "sailing", caller=BOB)
    assert [line.split() for line in run_carrel("list", "ann@example.com").stdout.splitlines()] == [
        ["TASK_ID", "LAST", "USED", "MATERIALS"],
        ["baking", "2026-03-11", "08:30", "2"],
        ["sailing", "2026-03-10", "08:30", "1"],
    ]
    assert run_carrel("list", "eve").stdout == "eve has no materials in any workspace.\n"


def test_a_long_list_is_cut_to_the_latest_50_workspaces(project: str) -> None:
    async def store_workspaces(app: App) -> None:
        ctx = make_job_context(app)
        writes = []
        for number in range(51):
            used = datetime(2026, 3, 10, 8, number, tzinfo=UTC)
            reference = open_workspace(ctx, f"task-{number}", "bob").reference
            writes.append(Create(reference, {"created_at": used, "touched_at": used}))
        await ctx.database.commit(writes)

    run_in_database(store_workspaces, project)
    result = run_carrel("list", "bob")
    tasks = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert tasks == [f"task-{number}" for number in range(50, 0, -1)]
    assert result.stderr == "Only the 50 most recently used workspaces are listed.\n"


def run_purge() -> str:
    """Run the job in a process of its own, because it changes the log level; return the output."""
    code = "from infra.cli.main import main; main()"
    command = [sys.executable, "-c", code, "jobs", "run", "purge"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_purge_prints_what_it_deleted(project: str) -> None:
    upload(project, "old", MAST, BREAD, now=datetime.now(UTC) - timedelta(days=91))
    upload(project, "recent")
    deleted = "purge: 2 documents, 4 parts, 2 passages, 2 answers, 1 tasks"
    assert any(line.startswith(f"{deleted} (") for line in run_purge().splitlines())
    assert "purge: nothing to do" in run_purge()


def test_materials_in_the_cloud_need_no_embedding_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "set, so that it is put back afterwards")
    monkeypatch.delenv("EMBEDDING_PROVIDER", raising=False)
    result = CliRunner().invoke(main, ["--cloud", "materials", "list", "Ann"])
    assert result.exit_code == 1
    assert "'Ann' is not a user id" in result.stderr

"""`carrel materials`: what users uploaded to tasks, and its erasure."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from infra.cli.formatting import count_of, minute, table
from infra.local import local_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.errors import NotFound
    from shared.firestore.database import Database
    from shared.workspaces.listing import WorkspaceSummary

    ResultT = TypeVar("ResultT")

_MAX_TASKS: Final = 50
"""`materials list` prints at most this many tasks."""
_MAX_SUGGESTIONS: Final = 10
"""The error about an unknown task names at most this many tasks that exist."""


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Proof of an erasure.

    Attributes:
        user: The user whose materials were erased.
        task: The id of the task.
        erased_at: When, in UTC.
        deleted: The number of deleted documents by kind.
    """

    user: str
    task: str
    erased_at: str
    deleted: dict[str, int]

    def __str__(self) -> str:
        """Format for people."""
        lines = {
            "user": self.user,
            "task": self.task,
            "erased at": f"{self.erased_at[:19].replace('T', ' ')} UTC",
            "documents": self.deleted["documents"],
            "parts": self.deleted["parts"],
            "passages": self.deleted["passages"],
            "answers": f"{self.deleted['answers']} stored for repeated calls",
            "task itself": self.deleted["task"],
        }
        return "\n".join(f"{name:<14} {value}" for name, value in lines.items())


@click.group()
def materials() -> None:
    """List and erase the materials that users uploaded to tasks."""


@materials.command("list")
@click.argument("user")
def list_tasks(user: str) -> None:
    """List the tasks of USER that have materials, most recently used first."""
    from shared.core.caller import require_user_id

    require_user_id(user)
    with local_database.connected_database():
        tasks = _run(lambda database: _tasks_with_counts(database, user))
    if not tasks:
        click.echo(f"{user} has no materials in any task.")
        return
    rows = [(task.task_id, _last_used(task), str(count)) for task, count in tasks[:_MAX_TASKS]]
    click.echo(table(("TASK", "LAST USED", "MATERIALS"), rows))
    if len(tasks) > _MAX_TASKS:
        click.echo(f"Only the {_MAX_TASKS} most recently used tasks are listed.", err=True)


# Without this setting, click takes a task id that begins with a dash for an option.
@materials.command(context_settings={"ignore_unknown_options": True})
@click.argument("user")
@click.argument("task")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as JSON.")
def erase(user: str, task: str, *, yes: bool, as_json: bool) -> None:
    """Erase all materials of USER in TASK, and print a receipt."""
    from shared.core.caller import require_user_id

    require_user_id(user)
    task_id = _task_id(task)
    with local_database.connected_database():
        count = _run(lambda database: _count_materials(database, user, task_id))
        if not yes:
            question = f"Erase {count_of(count, 'document')} of {user} in the task {task_id}?"
            click.confirm(f"{question} This cannot be undone.", abort=True, err=True)
        receipt = _run(lambda database: _erase(database, user, task_id))
        local_database.save_now()
    click.echo(json.dumps(asdict(receipt)) if as_json else str(receipt))


def _run(operation: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """Run an operation on the database, and close the connection."""
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.firestore.database import Connection, Database

    settings = Settings()

    async def run_operation() -> ResultT:
        connection = Connection(settings.google_cloud_project, settings.firestore_database)
        try:
            return await operation(Database(connection, Meter()))
        finally:
            await connection.aclose()

    return asyncio.run(run_operation())


async def _tasks_with_counts(database: Database, user: str) -> list[tuple[WorkspaceSummary, int]]:
    """Load the latest tasks with their numbers of materials, one more than is listed."""
    from shared.workspaces.listing import UserWorkspaces

    repository = UserWorkspaces(database, user)
    latest = await repository.latest(_MAX_TASKS + 1)
    counts = await repository.document_counts([task.task_id for task in latest])
    return list(zip(latest, counts, strict=True))


async def _count_materials(database: Database, user: str, task_id: str) -> int:
    """Count the materials in a task.

    Raises:
        NotFound: There is no such task.
    """
    from shared.workspaces.listing import UserWorkspaces
    from shared.workspaces.repository import Workspace

    task = await Workspace(database, user, task_id).load()
    if task.touched_at is None:
        raise await _not_found(database, user, task_id)
    [count] = await UserWorkspaces(database, user).document_counts([task_id])
    return count


async def _erase(database: Database, user: str, task_id: str) -> ErasureReceipt:
    """Erase a task.

    Raises:
        NotFound: The task no longer exists.
    """
    from shared.core.dates import utc_now
    from shared.workspaces.erasure import WorkspaceErasure
    from shared.workspaces.repository import Workspace

    erasure = WorkspaceErasure(database, Workspace(database, user, task_id))
    if not await erasure.begin():
        raise await _not_found(database, user, task_id)
    deleted: Counter[str] = Counter()
    async for page in erasure.pages():
        deleted += page
    counts = {kind: deleted[kind] for kind in ("documents", "parts", "passages", "answers")}
    counts["task"] = deleted["tasks"]
    return ErasureReceipt(user, task_id, utc_now().isoformat(timespec="seconds"), counts)


async def _not_found(database: Database, user: str, task_id: str) -> NotFound:
    """Return the error about an unknown task, which names the existing tasks."""
    from shared.core.errors import NotFound
    from shared.workspaces.listing import UserWorkspaces

    tasks = await UserWorkspaces(database, user).latest(_MAX_SUGGESTIONS + 1)
    if not tasks:
        return NotFound(f"{user} has no materials in any task. Is the name right?")
    names = ", ".join(task.task_id for task in tasks[:_MAX_SUGGESTIONS])
    more = " and more; to list them: carrel materials list" if len(tasks) > _MAX_SUGGESTIONS else ""
    return NotFound(f"{user} has no materials in the task {task_id}. Tasks: {names}{more}.")


def _task_id(task: str) -> str:
    from shared.core.ids import safe_id

    try:
        return safe_id(task)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="TASK") from error


def _last_used(task: WorkspaceSummary) -> str:
    return "being erased" if task.erasing else minute(task.touched_at)

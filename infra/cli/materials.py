"""`carrel materials`: what users brought to tasks, and how to erase it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import click

from infra.cli.formatting import counted, minute, table
from infra.local import local_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.errors import NotFound
    from shared.firestore.database import Database
    from shared.workspaces.listing import WorkspaceSummary

    ResultT = TypeVar("ResultT")

_SHOWN: Final = 50
"""Tasks that a list shows."""
_NAMED: Final = 10
"""Tasks that are named where there is none of that name."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased.

    Attributes:
        user: Whose it was.
        task: The id of their task.
        erased_at: When that was done, in UTC.
        deleted: How many documents of each kind are gone.
    """

    user: str
    task: str
    erased_at: str
    deleted: dict[str, int]

    def __str__(self) -> str:
        """For people."""
        lines = {
            "user": self.user,
            "task": self.task,
            "erased at": f"{self.erased_at[:19].replace('T', ' ')} UTC",
            "documents": self.deleted["documents"],
            "parts": self.deleted["parts"],
            "passages": self.deleted["passages"],
            "answers": f"{self.deleted['answers']} kept for repetition",
            "task itself": self.deleted["task"],
        }
        return "\n".join(f"{name:<14} {value}" for name, value in lines.items())


@click.group()
def materials() -> None:
    """Materials that users brought to tasks: what there is, and erasing it."""


@materials.command("list")
@click.argument("user")
def list_tasks(user: str) -> None:
    """List the tasks to which USER brought materials, those used last first."""
    from shared.core.caller import require_user_id

    require_user_id(user)
    with local_database.knowledge_base():
        found = _in_database(lambda database: _counted(database, user))
    if not found:
        click.echo(f"{user} has no materials in any task.")
        return
    rows = [(task.task_id, _used(task), str(count)) for task, count in found[:_SHOWN]]
    click.echo(table(("TASK", "LAST USED", "MATERIALS"), rows))
    if len(found) > _SHOWN:
        click.echo(f"There are more: these are the {_SHOWN} that were used last.", err=True)


# Ids of tasks may begin with a dash.
@materials.command(context_settings={"ignore_unknown_options": True})
@click.argument("user")
@click.argument("task")
@click.option("--yes", is_flag=True, help="Do not ask first.")
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as JSON.")
def erase(user: str, task: str, *, yes: bool, as_json: bool) -> None:
    """Erase all that USER brought to TASK, now, and print a receipt."""
    from shared.core.caller import require_user_id

    require_user_id(user)
    task_id = _task_id(task)
    with local_database.knowledge_base():
        held = _in_database(lambda database: _held(database, user, task_id))
        if not yes:
            asked = f"Erase {counted(held, 'document')} that {user} brought to the task {task_id}?"
            click.confirm(f"{asked} They cannot be brought back.", abort=True, err=True)
        receipt = _in_database(lambda database: _erased(database, user, task_id))
        local_database.keep()
    click.echo(json.dumps(asdict(receipt)) if as_json else str(receipt))


def _in_database(work: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    """What `work` finds or does in the database."""
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.firestore.database import Connection, Database

    settings = Settings()

    async def working() -> ResultT:
        connection = Connection(settings.google_cloud_project, settings.firestore_database)
        try:
            return await work(Database(connection, Meter()))
        finally:
            await connection.aclose()

    return asyncio.run(working())


async def _counted(database: Database, user: str) -> list[tuple[WorkspaceSummary, int]]:
    """The tasks used last, one more than is shown, and how many materials each holds."""
    from shared.workspaces.listing import UserWorkspaces

    tasks = UserWorkspaces(database, user)
    latest = await tasks.latest(_SHOWN + 1)
    counts = await tasks.document_counts([each.task_id for each in latest])
    return list(zip(latest, counts, strict=True))


async def _held(database: Database, user: str, task_id: str) -> int:
    """How many materials a task holds.

    Raises:
        NotFound: There is no such task.
    """
    from shared.workspaces.listing import UserWorkspaces
    from shared.workspaces.repository import Workspace

    task = await Workspace(database, user, task_id).load()
    if task.touched_at is None:
        raise await _missing(database, user, task_id)
    [held] = await UserWorkspaces(database, user).document_counts([task_id])
    return held


async def _erased(database: Database, user: str, task_id: str) -> Receipt:
    """Erase a task.

    Raises:
        NotFound: There is none any more.
    """
    from shared.core.dates import utc_now
    from shared.workspaces.erasure import WorkspaceErasure
    from shared.workspaces.repository import Workspace

    erasure = WorkspaceErasure(database, Workspace(database, user, task_id))
    if not await erasure.begin():
        raise await _missing(database, user, task_id)
    gone: Counter[str] = Counter()
    async for deleted in erasure.pages():
        gone += deleted
    counts = {kind: gone[kind] for kind in ("documents", "parts", "passages", "answers")}
    counts["task"] = gone["tasks"]
    return Receipt(user, task_id, utc_now().isoformat(timespec="seconds"), counts)


async def _missing(database: Database, user: str, task_id: str) -> NotFound:
    """That there is no such task, and which there are."""
    from shared.core.errors import NotFound
    from shared.workspaces.listing import UserWorkspaces

    found = await UserWorkspaces(database, user).latest(_NAMED + 1)
    if not found:
        return NotFound(f"{user} has no materials in any task. Is the name right?")
    names = ", ".join(each.task_id for each in found[:_NAMED])
    more = ", and more: `carrel materials list` shows them" if len(found) > _NAMED else ""
    return NotFound(f"{user} has no materials in a task {task_id}. There are: {names}{more}.")


def _task_id(task: str) -> str:
    from shared.core.ids import safe_id

    try:
        return safe_id(task)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="TASK") from error


def _used(task: WorkspaceSummary) -> str:
    return "being erased" if task.erasing else minute(task.touched_at)

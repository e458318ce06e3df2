"""`carrel materials`: lists and erases the texts that users uploaded to workspaces.

A workspace contains the texts that a user gave to `extract_key_info` under one `task_id`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_database
from infra.cli.formatting import format_minute, format_table
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from shared.core.errors import NotFound
    from shared.firestore.database import Database
    from shared.workspaces.listing import WorkspaceSummary

_MAX_WORKSPACES: Final = 50
"""`materials list` prints at most this many workspaces."""
_MAX_SUGGESTIONS: Final = 10
"""The error about an unknown workspace names at most this many workspaces that exist."""


@click.group()
def materials() -> None:
    """List and erase the texts that users uploaded to workspaces."""


@materials.command("list")
@click.argument("user")
def list_workspaces(user: str) -> None:
    """List the workspaces of USER, most recently used first."""
    from shared.core.caller import require_user_id

    require_user_id(user)
    workspaces = run_with_database(lambda database: _load_workspaces(database, user))
    if not workspaces:
        click.echo(f"{user} has no materials in any workspace.")
        return
    rows = [
        (workspace.task_id, _format_last_use(workspace), str(document_count))
        for workspace, document_count in workspaces[:_MAX_WORKSPACES]
    ]
    click.echo(format_table(("TASK_ID", "LAST USED", "MATERIALS"), rows))
    if len(workspaces) > _MAX_WORKSPACES:
        message = f"Only the {_MAX_WORKSPACES} most recently used workspaces are listed."
        click.echo(message, err=True)


# Without this setting, click takes an id that begins with a dash for an option.
@materials.command(context_settings={"ignore_unknown_options": True})
@click.argument("user")
@click.argument("task_id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def erase(user: str, task_id: str, *, yes: bool) -> None:
    """Erase USER's workspace TASK_ID with all materials, and print a receipt."""
    from shared.core.caller import require_user_id
    from shared.core.dates import utc_now

    require_user_id(user)
    task_id = _normalize_id(task_id)
    count = run_with_database(lambda database: _count_materials(database, user, task_id))
    if not yes:
        documents = format_count(count, "document")
        question = f"Erase {documents} of {user} in the workspace {task_id}?"
        click.confirm(f"{question} This cannot be undone.", abort=True, err=True)
    deleted = run_with_database(lambda database: _erase(database, user, task_id))
    lines = {
        "user": user,
        "workspace": task_id,
        "erased at": f"{utc_now():%F %T} UTC",
        **{kind: str(deleted[kind]) for kind in ("documents", "parts")},
        "answers": f"{deleted['answers']} stored for repeated calls",
        "workspaces": str(deleted["task"]),
    }
    click.echo("\n".join(f"{name:<14} {value}" for name, value in lines.items()))


async def _load_workspaces(database: Database, user: str) -> list[tuple[WorkspaceSummary, int]]:
    """Load the workspaces to list, each with the number of its documents.

    If there are more, one more is loaded, to show that.
    """
    from shared.workspaces.listing import UserWorkspaces

    repository = UserWorkspaces(database, user)
    workspaces = await repository.list_latest(_MAX_WORKSPACES + 1)
    counts = await repository.count_documents([workspace.task_id for workspace in workspaces])
    return list(zip(workspaces, counts, strict=True))


async def _count_materials(database: Database, user: str, task_id: str) -> int:
    """Count the documents in a workspace.

    Raises:
        NotFound: The workspace does not exist.
    """
    from shared.workspaces.listing import UserWorkspaces
    from shared.workspaces.repository import Workspace

    workspace = await Workspace(database, user, task_id).load()
    if workspace.touched_at is None:
        raise await _make_not_found_error(database, user, task_id)
    [count] = await UserWorkspaces(database, user).count_documents([task_id])
    return count


async def _erase(database: Database, user: str, task_id: str) -> dict[str, int]:
    """Erase a workspace, and return the numbers of deleted Firestore documents by kind.

    Raises:
        NotFound: The workspace no longer exists.
    """
    from shared.core.dates import utc_now
    from shared.firestore.retention import Erasure
    from shared.workspaces.erasure import UNUSED_WORKSPACES
    from shared.workspaces.repository import WORKSPACES, Workspace

    workspace = Workspace(database, user, task_id).reference
    erasure = Erasure(database, UNUSED_WORKSPACES, workspace, utc_now())
    if not await erasure.begin():
        raise await _make_not_found_error(database, user, task_id)
    deleted = Counter[str]()
    async for kind, count in erasure.complete():
        deleted[kind] += count
    counts = {kind: deleted[kind] for kind in ("documents", "parts", "answers")}
    return {**counts, "task": deleted[WORKSPACES]}


async def _make_not_found_error(database: Database, user: str, task_id: str) -> NotFound:
    """Return the error about an unknown workspace, which lists existing ones."""
    from shared.core.errors import NotFound
    from shared.workspaces.listing import UserWorkspaces

    workspaces = await UserWorkspaces(database, user).list_latest(_MAX_SUGGESTIONS + 1)
    if not workspaces:
        return NotFound(f"{user} has no materials in any workspace. Is the name right?")
    ids = ", ".join(workspace.task_id for workspace in workspaces[:_MAX_SUGGESTIONS])
    has_more = len(workspaces) > _MAX_SUGGESTIONS
    more = f" and more. To list all: {carrel('materials list')}" if has_more else ""
    return NotFound(f"{user} has no workspace {task_id}. Workspaces: {ids}{more}.")


def _normalize_id(task_id: str) -> str:
    """Return the id under which a workspace is stored.

    Raises:
        click.BadParameter: The id is not valid.
    """
    from shared.core.ids import safe_id

    try:
        return safe_id(task_id)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="TASK_ID") from error


def _format_last_use(workspace: WorkspaceSummary) -> str:
    return format_minute(workspace.touched_at) if workspace.touched_at else "being erased"

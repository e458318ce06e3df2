"""Uploads texts to workspaces, and erases workspaces.

A workspace is the texts that a user brought to `extract_key_info` under one task id.
"""

from datetime import datetime
from typing import Any, Final

from shared.core.caller import Caller
from shared.firestore.retention import Erasure
from shared.runtime.context import App, Context
from shared.workspaces.erasure import UNUSED_WORKSPACES
from shared.workspaces.repository import Workspace
from tests.support.database_dump import read_all_documents
from tests.support.materials import READER, TEXT, extract_result

QUESTION: Final = "What was struck by lightning?"
"""The query of uploads, which the first passage of the default text answers."""


async def upload_text(
    app: App, task: str, text: str = TEXT, caller: Caller = READER, **options: Any
) -> dict[str, Any]:
    """Upload a text to a workspace, and return the result of the call."""
    return await extract_result(
        app, QUESTION, caller, materials=text, task_id=task, top_k=20, **options
    )


def open_workspace(ctx: Context, task: str, user: str = "reader") -> Workspace:
    """Return a workspace of a user."""
    return Workspace(ctx.database, user, task)


def make_erasure(ctx: Context, task: str, user: str = "reader") -> Erasure:
    """Return the erasure of a workspace, which has not begun."""
    workspace = open_workspace(ctx, task, user).reference
    return Erasure(ctx.database, UNUSED_WORKSPACES, workspace, ctx.clock())


async def erase_workspace(ctx: Context, task: str, user: str = "reader") -> None:
    """Erase a workspace completely."""
    erasure = make_erasure(ctx, task, user)
    assert await erasure.begin()
    async for _ in erasure.complete():
        pass


async def read_write_times(ctx: Context, prefix: str = "") -> dict[str, datetime]:
    """Return the time of the last write of each document below a path prefix, by path."""
    contents = await read_all_documents(ctx.database.connection.client)
    return {
        path: snapshot.update_time for path, snapshot in contents.items() if path.startswith(prefix)
    }

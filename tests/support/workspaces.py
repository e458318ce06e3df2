"""Tasks with materials at moments that the test says, and what is left of them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.workspaces.erasure import WorkspaceErasure
from shared.workspaces.repository import Workspace
from tests.support.database_dump import everything
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import PAGES, READER, extracted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.support.clock import SettableClock

QUESTION: Final = "What was struck by lightning?"


@asynccontextmanager
async def opened(settings: Settings, day: SettableClock) -> AsyncIterator[App]:
    """A database on this day, with an embedder that costs nothing."""
    app = App(settings, clock=day, embedder=WordEmbedder())
    yield app
    await app.aclose()


async def bring(
    app: App, task: str, text: str = PAGES, caller: Caller = READER, **more: Any
) -> dict[str, Any]:
    """Bring materials to a task."""
    return await extracted(app, QUESTION, caller, materials=text, task_id=task, top_k=20, **more)


def of_job(app: App) -> Context:
    """What a job may use."""
    return app.context(Caller(), Meter())


def task_of(ctx: Context, task: str, user: str = "reader") -> Workspace:
    """What a user brought to a task."""
    return Workspace(ctx.database, user, task)


def erasure_of(ctx: Context, task: str, user: str = "reader") -> WorkspaceErasure:
    """What erases it."""
    return WorkspaceErasure(ctx.database, task_of(ctx, task, user))


async def erase(ctx: Context, task: str, user: str = "reader") -> None:
    """Erase a task to its end."""
    erasure = erasure_of(ctx, task, user)
    assert await erasure.begin()
    async for _ in erasure.pages():
        pass


async def stored(ctx: Context, below: str = "") -> dict[str, datetime]:
    """When each document below a path was last written, by its own path."""
    contents = await everything(ctx.database.client)
    return {
        path: snapshot.update_time for path, snapshot in contents.items() if path.startswith(below)
    }

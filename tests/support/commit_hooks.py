"""An app whose commits are watched: each, by its number, may be followed by something else."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.cloud.firestore import AsyncClient, AsyncWriteBatch

from shared.firestore.database import Connection
from shared.runtime.context import App

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.settings import Settings

    Results = list[Any]
    Send = Callable[[], Awaitable[Results]]
    Around = Callable[[int, Send], Awaitable[Results]]
    """Given the number of a commit, from 1, and what sends it: returns what the server says."""


SOME_OR_ALL: Final = pytest.mark.parametrize(
    "step", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)
"""For tests that stop work after commits: every third in `make test`, each in `make test-slow`."""


async def plainly(_commit: int, send: Send) -> Results:
    """Send a commit, and nothing else."""
    return await send()


class WatchedApp(App):
    """Opens the database through a client that sends each commit as it is told.

    Attributes:
        commits: How many were made so far.
    """

    def __init__(self, settings: Settings, around: Around = plainly, **more: Any) -> None:
        """Make each commit in this way."""
        super().__init__(settings, **more)
        self.commits = 0
        self._around = around

    @cached_property
    def connection(self) -> Connection:
        """The database, watched."""
        settings = self.settings
        return _Connection(settings.google_cloud_project, settings.firestore_database, self)

    async def commit(self, send: Send) -> Results:
        """Make the next commit."""
        self.commits += 1
        return await self._around(self.commits, send)


def after(number: int, act: Callable[[], Awaitable[object]]) -> Around:
    """Act right after a commit has landed, before who made it hears of it; 0: before the first."""

    async def around(commit: int, send: Send) -> Results:
        if commit == 1 and number == 0:
            await act()
        results = await send()
        if commit == number:
            await act()
        return results

    return around


def before(number: int, act: Callable[[], Awaitable[object]]) -> Around:
    """Act right before a commit is sent: after whatever was read for it."""

    async def around(commit: int, send: Send) -> Results:
        if commit == number:
            await act()
        return await send()

    return around


def answer_lost(number: int) -> Around:
    """Send a commit twice, as Google's client does where the first answer is lost on the way."""

    async def around(commit: int, send: Send) -> Results:
        if commit == number:
            await send()
        return await send()

    return around


class _Connection(Connection):
    def __init__(self, project: str, database: str, watching: WatchedApp) -> None:
        super().__init__(project, database)
        self._names = project, database
        self._watching = watching

    @cached_property
    def client(self) -> AsyncClient:
        project, database = self._names
        return _Client(self._watching, project=project, database=database)


class _Client(AsyncClient):
    def __init__(self, watching: WatchedApp, **names: str) -> None:
        super().__init__(**names)
        self._watching = watching

    def batch(self) -> AsyncWriteBatch:
        return _Batch(self, self._watching)


class _Batch(AsyncWriteBatch):
    def __init__(self, client: AsyncClient, watching: WatchedApp) -> None:
        super().__init__(client)
        self._watching = watching

    async def commit(self, *how: Any, **more: Any) -> Results:
        writes = list(self._write_pbs)

        async def send() -> Results:
            self._write_pbs = list(writes)  # a batch forgets what it has committed
            return list(await super(_Batch, self).commit(*how, **more))

        return await self._watching.commit(send)

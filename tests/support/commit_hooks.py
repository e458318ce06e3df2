"""An app that calls a hook around each commit, so that a test can interfere at any moment."""

from __future__ import annotations

import itertools
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
    CommitHook = Callable[[int, Send], Awaitable[Results]]
    """A hook around a commit.

    Its arguments are the number of the commit, from 1, and a function that sends the commit. It
    returns the results of the commit.
    """


SOME_OR_ALL: Final = pytest.mark.parametrize(
    "step", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)
"""A mark for tests that stop work after one of its commits, and repeat that for many commits.

`make test` tries every third commit, and `make test-slow` each one.
"""


async def send_commit(_commit: int, send: Send) -> Results:
    """Send a commit and do nothing else."""
    return await send()


class WatchedApp(App):
    """An app that sends its commits through a hook.

    Attributes:
        commits: The number of commits so far.
    """

    def __init__(self, settings: Settings, hook: CommitHook = send_commit, **options: Any) -> None:
        """Send each commit through `hook`."""
        super().__init__(settings, **options)
        self.commits = 0
        self._hook = hook

    @cached_property
    def connection(self) -> Connection:
        """The connection whose commits go through the hook."""
        settings = self.settings
        return _Connection(settings.google_cloud_project, settings.firestore_database, self)

    async def commit(self, send: Send) -> Results:
        """Count a commit and send it through the hook."""
        self.commits += 1
        return await self._hook(self.commits, send)


def call_after(number: int, act: Callable[[], Awaitable[object]]) -> CommitHook:
    """Return a hook that acts between the storing of a commit and the return of its results.

    With `number` 0, the hook acts before the first commit.
    """

    async def around(commit: int, send: Send) -> Results:
        if commit == 1 and number == 0:
            await act()
        results = await send()
        if commit == number:
            await act()
        return results

    return around


def call_before(number: int, act: Callable[[], Awaitable[object]]) -> CommitHook:
    """Return a hook that acts right before the commit with this number, after all reads for it."""

    async def around(commit: int, send: Send) -> Results:
        if commit == number:
            await act()
        return await send()

    return around


def send_commit_twice(number: int) -> CommitHook:
    """Return a hook that sends a commit twice, as Google's client does if the answer is lost."""

    async def around(commit: int, send: Send) -> Results:
        if commit == number:
            await send()
        return await send()

    return around


def intercept_commits(client: AsyncClient, patch: pytest.MonkeyPatch, hook: CommitHook) -> None:
    """Send the commits of a database client through `hook`, which gets their numbers from 1 on."""
    api = client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit
    numbers = itertools.count(1)

    async def commit_through_hook(**request: Any) -> Any:
        return await hook(next(numbers), lambda: commit(**request))

    patch.setattr(api, "commit", commit_through_hook)


class _Connection(Connection):
    def __init__(self, project: str, database: str, app: WatchedApp) -> None:
        super().__init__(project, database)
        self._names = project, database
        self._app = app

    @cached_property
    def client(self) -> AsyncClient:
        project, database = self._names
        return _Client(self._app, project=project, database=database)


class _Client(AsyncClient):
    def __init__(self, app: WatchedApp, **names: str) -> None:
        super().__init__(**names)
        self._app = app

    def batch(self) -> AsyncWriteBatch:
        return _Batch(self, self._app)


class _Batch(AsyncWriteBatch):
    def __init__(self, client: AsyncClient, app: WatchedApp) -> None:
        super().__init__(client)
        self._app = app

    async def commit(self, *args: Any, **kwargs: Any) -> Results:
        writes = list(self._write_pbs)

        async def send() -> Results:
            self._write_pbs = list(writes)  # a batch empties itself when it is committed
            return list(await super(_Batch, self).commit(*args, **kwargs))

        return await self._app.commit(send)

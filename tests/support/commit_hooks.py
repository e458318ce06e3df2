"""An app that calls a hook around each commit, so that a test can interfere at any moment."""

import itertools
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any, Final

import pytest

from shared.core.settings import KNOWLEDGE_DATABASE, Settings
from shared.firestore.connection import Connection
from shared.runtime.context import App

Response = Any
"""The database's response to a commit."""
Send = Callable[[], Awaitable[Response]]
"""A function that sends a commit."""
CommitHook = Callable[[int, Send], Awaitable[Response]]
"""A function that is called in place of sending a commit, and returns its response.

Its arguments are the number of the commit, from 1, and the function that sends it.
"""


KILL_AT_SOME_OR_ALL_COMMITS: Final = pytest.mark.parametrize(
    "step", [3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)
"""A mark for tests that stop work after commit `step`, then after `2 * step`, and so on.

`make test` stops after every third commit, and `make test-slow` after each one.
"""


async def send_commit(_commit: int, send: Send) -> Response:
    """Send a commit and do nothing else: the hook for tests that only count commits."""
    return await send()


class WatchedApp(App):
    """An app that sends its commits through a hook, and counts them.

    Attributes:
        commits: The number of commits so far.
    """

    def __init__(self, settings: Settings, hook: CommitHook = send_commit, **options: Any) -> None:
        """Send each commit through `hook`. The `options` are keyword arguments of `App`."""
        super().__init__(settings, **options)
        self.commits = 0
        self._hook = hook

    @cached_property
    def connection(self) -> Connection:
        """The connection whose commits go through the hook."""
        return _Connection(self.settings.google_cloud_project, self)

    async def commit(self, send: Send) -> Response:
        """Count a commit and send it through the hook."""
        self.commits += 1
        return await self._hook(self.commits, send)


def call_after_commit(number: int, act: Callable[[], Awaitable[object]]) -> CommitHook:
    """Return a hook that calls `act` after commit `number` is stored, before its response returns.

    With `number` 0, the hook calls `act` before the first commit.
    """

    async def hook(commit: int, send: Send) -> Response:
        if commit == 1 and number == 0:
            await act()
        response = await send()
        if commit == number:
            await act()
        return response

    return hook


def call_before_commit(number: int, act: Callable[[], Awaitable[object]]) -> CommitHook:
    """Return a hook that calls `act` right before commit `number`, after all reads for it."""

    async def hook(commit: int, send: Send) -> Response:
        if commit == number:
            await act()
        return await send()

    return hook


def send_commit_twice(number: int) -> CommitHook:
    """Return a hook that sends commit `number` twice, as a client does after a lost answer."""

    async def hook(commit: int, send: Send) -> Response:
        if commit == number:
            await send()
        return await send()

    return hook


def intercept_commits(connection: Connection, patch: pytest.MonkeyPatch, hook: CommitHook) -> None:
    """Send the commits of a connection through `hook`, which gets their numbers from 1 on."""
    numbers, commit = itertools.count(1), connection.commit
    patch.setattr(
        connection, "commit", lambda request: hook(next(numbers), partial(commit, request))
    )


class _Connection(Connection):
    def __init__(self, project: str, app: WatchedApp) -> None:
        super().__init__(project, KNOWLEDGE_DATABASE)
        self._app = app

    async def commit(self, request: Any) -> Response:
        return await self._app.commit(partial(super().commit, request))

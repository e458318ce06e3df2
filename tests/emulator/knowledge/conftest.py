"""Fixtures for tests of the knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from shared.core.settings import Settings
from tests.support.commit_hooks import CommitHook, WatchedApp
from tests.support.fakes.embedder import WordEmbedder

MakeWatchedApp = Callable[[CommitHook], WatchedApp]


@pytest.fixture
async def make_watched_app(settings: Settings) -> AsyncIterator[MakeWatchedApp]:
    """Return a function that makes an app of the test's database, with a hook for its commits."""
    opened: list[WatchedApp] = []

    def make(hook: CommitHook) -> WatchedApp:
        opened.append(WatchedApp(settings, hook, embedder=WordEmbedder()))
        return opened[-1]

    yield make
    for app in opened:
        await app.aclose()

"""Fixtures of all tests of functions and jobs on a database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.fakes.embedder import WordEmbedder

MakeEmptyApp = Callable[[datetime | None], App]
"""A function that makes an app whose clock shows a fixed time; None is the current second."""
MakeEmptyContext = Callable[[datetime | None], Context]
"""The same for a context."""


@pytest.fixture(scope="module")
def make_empty_context(make_empty_app: MakeEmptyApp) -> MakeEmptyContext:
    """Return a function that makes a context with an empty database, whose clock shows a time."""
    return lambda now: make_empty_app(now).context(Caller.of("reader"), Meter())


@pytest.fixture(scope="module")
async def make_empty_app() -> AsyncIterator[MakeEmptyApp]:
    """Return a function that makes an app with an empty database, whose clock shows a time.

    The apps are closed after the last test of the module. Tests that share one only read from it.
    """
    apps: list[App] = []

    def make_app(now: datetime | None) -> App:
        settings = Settings(google_cloud_project=f"test-{uuid.uuid4().hex[:16]}")
        apps.append(App(settings, clock=SettableClock(now), embedder=WordEmbedder()))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()

"""Fixtures: apps with the old and the new embedding model, over one knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clock import NOON, SettableClock
from tests.support.model_migration import (
    fill_and_forget_space,
    make_app_opener,
    make_new_model,
    make_previous_model,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.core.settings import Settings
    from shared.runtime.context import App
    from tests.support.fakes.embedding_model import FakeEmbeddingModel

    Open = Callable[[FakeEmbeddingModel], App]
    """A function that opens an app with an embedding model."""


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
async def open_app(settings: Settings, clock: SettableClock) -> AsyncIterator[Open]:
    """A function that opens an app, which is closed after the test."""
    apps: list[App] = []
    yield make_app_opener(settings, clock, apps)
    for app in apps:
        await app.aclose()


@pytest.fixture
async def old_app(open_app: Open) -> App:
    """An app with the old model, which has embedded the whole knowledge base."""
    return await fill_and_forget_space(open_app(make_previous_model()))


@pytest.fixture
def new_app(open_app: Open) -> App:
    """An app with the new model."""
    return open_app(make_new_model())

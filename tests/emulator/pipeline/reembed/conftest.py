"""Fixtures: a knowledge base, and apps with the old and the new embedding model.

Each app is like a process of its own, on the same database.
"""

from collections.abc import AsyncIterator, Callable

import pytest

from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.clock import SettableClock
from tests.support.fakes.embedding_model import FakeEmbeddingModel
from tests.support.model_migration import (
    fill_and_forget_space,
    make_app_opener,
    make_new_model,
    make_previous_model,
)

OpenApp = Callable[[FakeEmbeddingModel], App]


@pytest.fixture
async def open_app(settings: Settings, clock: SettableClock) -> AsyncIterator[OpenApp]:
    """A function that makes an app with this embedding model."""
    apps: list[App] = []
    yield make_app_opener(settings, clock, apps)
    for app in apps:
        await app.aclose()


@pytest.fixture
async def old_app(open_app: OpenApp) -> App:
    """An app with the old model, which has embedded everything."""
    return await fill_and_forget_space(open_app(make_previous_model()))


@pytest.fixture
def new_app(open_app: OpenApp) -> App:
    """An app with the new model."""
    return open_app(make_new_model())

"""A base that one process embedded, and another is to embed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clock import NOON, SettableClock
from tests.support.model_migration import Model, app_opener, former_model, new_model, open_filled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.core.settings import Settings
    from shared.runtime.context import App

    Open = Callable[[Model], App]


@pytest.fixture
def clock() -> SettableClock:
    """What time it is."""
    return SettableClock(NOON)


@pytest.fixture
async def opened(settings: Settings, clock: SettableClock) -> AsyncIterator[Open]:
    """Opens the database as a process with this model does."""
    backends: list[App] = []
    yield app_opener(settings, clock, backends)
    for app in backends:
        await app.aclose()


@pytest.fixture
async def old(opened: Open) -> App:
    """A process with the former model, which has embedded everything."""
    return await open_filled(opened(former_model()))


@pytest.fixture
def new(opened: Open) -> App:
    """A process with the model that is configured now."""
    return opened(new_model())

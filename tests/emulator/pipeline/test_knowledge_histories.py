"""After any history of saving, changing, forgetting and restoring, all tools agree with a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.knowledge_history import KnowledgeHistory, make_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from tests.support.killable_app import KillableApp

pytestmark = pytest.mark.anyio

QUICK_SEEDS = (0, 4)
SLOW_HISTORIES = 20


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[KillableApp]:
    opened = make_app(settings)
    yield opened
    await opened.aclose()


async def live(app: KillableApp, seed: int, events: int) -> None:
    """Check the base after each change, and everything after the jobs have run."""
    history = KnowledgeHistory(app, seed)
    for _ in range(3):
        for _ in range(events):
            await history.make_change()
            await history.check()
        await history.settle()
        await history.check_settled()


@pytest.mark.parametrize("seed", QUICK_SEEDS)
async def test_tools_agree_with_a_model_after_any_history(app: KillableApp, seed: int) -> None:
    await live(app, seed, events=6)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLOW_HISTORIES))
async def test_tools_agree_with_a_model_after_long_histories(app: KillableApp, number: int) -> None:
    await live(app, int(os.environ.get("KILL_SEED", "0")) + number, events=30)

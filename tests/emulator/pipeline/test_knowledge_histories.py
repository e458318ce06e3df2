"""After any history of saves, changes, deletions and restorations, all tools agree with a model.

The model, `KnowledgeHistory`, makes random changes, and knows what the tools must answer.
"""

import os
from collections.abc import AsyncIterator

import pytest

from shared.core.settings import Settings
from tests.support.killable_app import KillableApp
from tests.support.knowledge_history import KnowledgeHistory, make_app

QUICK_SEEDS = (0, 4)
SLOW_HISTORY_COUNT = 20


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[KillableApp]:
    """The app whose tools and jobs are called, and which may be killed after a commit."""
    opened = make_app(settings)
    yield opened
    await opened.aclose()


async def run_history(app: KillableApp, seed: int, changes: int) -> None:
    """Make changes in three rounds; check some answers after each change, and all after a round.

    The jobs run at the end of each round.
    """
    history = KnowledgeHistory(app, seed)
    for _ in range(3):
        for _ in range(changes):
            await history.make_change()
            await history.check()
        await history.settle()
        await history.check_settled()


@pytest.mark.parametrize("seed", QUICK_SEEDS)
async def test_tools_agree_with_a_model_after_any_history(app: KillableApp, seed: int) -> None:
    await run_history(app, seed, changes=6)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLOW_HISTORY_COUNT))
async def test_tools_agree_with_a_model_after_long_histories(app: KillableApp, number: int) -> None:
    seed = int(os.environ.get("KILL_SEED", "0")) + number
    await run_history(app, seed, changes=30)

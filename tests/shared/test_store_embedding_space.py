"""The guard that keeps vectors of different models apart."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from shared.caller import Caller
from shared.deps import Backend
from shared.errors import Conflict
from shared.store import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Purpose, Vector
    from shared.deps import Deps
    from shared.settings import Settings

pytestmark = pytest.mark.anyio


@dataclass
class Named:
    """An embedder of which only the name and the dimension matter."""

    model: str = "model-1"
    dimension: int = 3
    batch_size: int = 1

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Never called."""
        raise NotImplementedError(purpose, texts)

    async def aclose(self) -> None:
        """Hold nothing."""


async def test_a_new_database_is_not_embedded(deps: Deps) -> None:
    assert await deps.store.embedding_space.stamp() is None
    assert await deps.store.embedding_space.expect(Named()) is False


async def test_a_claim_stamps_the_database(deps: Deps) -> None:
    await deps.store.embedding_space.claim(Named())
    assert await deps.store.embedding_space.stamp() == ("model-1", 3)
    assert await deps.store.embedding_space.expect(Named()) is True


@pytest.mark.parametrize("other", [Named(model="model-2"), Named(dimension=4)])
async def test_another_model_or_dimension_is_refused(deps: Deps, other: Named) -> None:
    space = deps.store.embedding_space
    await space.claim(Named())
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)"):
        await space.expect(other)
    with pytest.raises(Conflict, match=r"embedded with model-1 \(3 dimensions\)"):
        await space.claim(other)
    assert await space.stamp() == ("model-1", 3)


async def test_a_process_asks_once(deps: Deps, backend: Backend) -> None:
    await deps.store.embedding_space.claim(Named())
    meter = Meter()
    await backend.deps(Caller(), meter).store.embedding_space.expect(Named())
    assert meter.round_trips == 0


async def test_of_two_models_that_claim_at_once_one_gets_it(deps: Deps, settings: Settings) -> None:
    elsewhere = Backend(settings)
    others = elsewhere.deps(Caller(), Meter()).store.embedding_space
    outcomes = await asyncio.gather(
        deps.store.embedding_space.claim(Named()),
        others.claim(Named(model="model-2")),
        return_exceptions=True,
    )
    await elsewhere.aclose()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "NoneType"]

"""Fixtures of extraction tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.knowledge import BAKING, SAILING, store_sources

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context


@pytest.fixture
async def chunks(ctx: Context) -> list[Chunk]:
    """Three passages about baking, and two about sailing."""
    return await store_sources(ctx, BAKING, SAILING)

"""Fixtures of extraction tests."""

import pytest

from shared.knowledge.chunk import Chunk
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, SAILING, store_sources


@pytest.fixture
async def chunks(ctx: Context) -> list[Chunk]:
    """Three passages about baking, and two about sailing."""
    return await store_sources(ctx, BAKING, SAILING)

"""What tests of extractions share: a small knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.knowledge import BAKING, SAILING, put_in

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Deps


@pytest.fixture
async def chunks(deps: Deps) -> list[Chunk]:
    """Three passages about baking, and two about sailing."""
    return await put_in(deps, BAKING, SAILING)

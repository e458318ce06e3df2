"""The database of the tests of keys, accounts and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.firestore.connection import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def access(project: str) -> AsyncIterator[Connection]:
    """The database of credentials, accounts and limits."""
    connection = Connection(project, "access")
    yield connection
    await connection.aclose()

"""The database of the tests of keys, accounts and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.firestore.connection import Connection


@pytest.fixture
async def access(project: str) -> AsyncIterator[Connection]:
    """The database of credentials, accounts and limits."""
    connection = Connection(project, "access")
    yield connection
    await connection.aclose()

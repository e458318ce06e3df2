"""The database of the tests of keys, accounts and limits."""

from collections.abc import AsyncIterator

import pytest

from shared.accounts.repositories.access_store import AccessStore
from shared.core.meter import Meter
from shared.firestore.connection import Connection


@pytest.fixture
async def access(project: str) -> AsyncIterator[Connection]:
    """The database of credentials, accounts and limits."""
    connection = Connection(project, "access")
    yield connection
    await connection.aclose()


@pytest.fixture
def store(access: Connection, meter: Meter) -> AccessStore:
    """The repositories of the database, with a meter of reads and writes."""
    return AccessStore(access, meter)

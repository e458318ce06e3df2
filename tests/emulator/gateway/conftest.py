"""Fixtures of the gateway's tests: its access services on a database of their own, at noon."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from shared.core.settings import Settings
from shared.firestore.connection import Connection
from tests.support.clock import NOON, SettableClock


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the gateway."""
    return SettableClock(NOON)


@pytest.fixture
def settings(project: str) -> Settings:
    """The settings of the gateway, with a secret."""
    return Settings(google_cloud_project=project, access_secrets=(SecretStr("s" * 32),))


@pytest.fixture
async def access(settings: Settings, clock: SettableClock) -> AsyncIterator[Access]:
    """The access services of the gateway."""
    services = Access(settings, clock)
    yield services
    await services.aclose()


@pytest.fixture
def connection(access: Access) -> Connection:
    """The connection to the database of accounts, keys and calls."""
    return access.connection

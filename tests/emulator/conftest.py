"""Fixtures of all tests of functions and jobs on a database."""

from collections.abc import AsyncIterator

import pytest

from tests.support.apps import Apps


@pytest.fixture(scope="module")
async def shared_apps() -> AsyncIterator[Apps]:
    """Opens apps, each on an empty database, for all tests of a module, which only read."""
    apps = Apps()
    yield apps
    await apps.aclose()

"""Fixtures of tests that ingest from Readwise."""

import pytest

from shared.core.settings import Settings
from tests.support.fakes.readwise import FakeReadwise
from tests.support.ingest_runs import make_readwise_settings


@pytest.fixture
def settings(project: str, readwise: FakeReadwise) -> Settings:
    """Settings by which ingest reads the library, and no folder."""
    return make_readwise_settings(readwise, project)

"""Fixtures: a fake Readwise, and the settings to ingest from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.core.settings import Settings
from tests.support.fakes.readwise import FakeReadwise
from tests.support.readwise_runs import make_readwise_settings


@pytest.fixture
def readwise() -> Iterator[FakeReadwise]:
    """A fake Readwise with an empty library, and pages of three highlights."""
    with FakeReadwise(page_size=3) as server:
        yield server


@pytest.fixture
def settings(project: str, readwise: FakeReadwise) -> Settings:
    """The settings of a deployment that ingests the fake Readwise's library."""
    return make_readwise_settings(readwise, project)

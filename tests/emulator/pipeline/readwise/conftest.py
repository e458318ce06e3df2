"""Fixtures: a Readwise server, and settings that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fakes.readwise import FakeReadwise
from tests.support.readwise_runs import make_readwise_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.settings import Settings


@pytest.fixture
def readwise() -> Iterator[FakeReadwise]:
    """A server for Readwise, with three highlights a page."""
    with FakeReadwise(page_size=3) as library:
        yield library


@pytest.fixture
def settings(project: str, readwise: FakeReadwise) -> Settings:
    """Settings by which ingest follows the library."""
    return make_readwise_settings(readwise, project)

"""Fixtures: a fake Readwise server, and settings by which ingest follows its account."""

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
    """A server for a Readwise account, which sends three highlights per page."""
    with FakeReadwise(page_size=3) as server:
        yield server


@pytest.fixture
def settings(project: str, readwise: FakeReadwise) -> Settings:
    """Settings by which ingest follows the account."""
    return make_readwise_settings(readwise, project)

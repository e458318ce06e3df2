"""Fixtures of tests of jobs: a clock, and the places from which ingest reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.core.settings import Settings
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.readwise import FakeReadwise


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands at noon until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
def settings(project: str, tmp_path: Path) -> Settings:
    """Settings by which ingest reads the test's folder."""
    return Settings(google_cloud_project=project, ingest_path=str(tmp_path))


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """A server for Cloud Storage with the empty bucket `library`, to which clients connect."""
    with FakeCloudStorage("library", page_size=3) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def readwise() -> Iterator[FakeReadwise]:
    """A server for Readwise with an empty library, and pages of three highlights."""
    with FakeReadwise(page_size=3) as server:
        yield server

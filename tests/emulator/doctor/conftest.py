"""Fixtures for tests of the doctor: a healthy deployment, and a way to record runs of its job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.firestore.connection import Connection
from shared.firestore.database import Database
from shared.firestore.runs import Run, Runs, RunState, new_run_id
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.gateway import FakeGateway
from tests.support.fakes.google_cloud import FakeGoogleCloud
from tests.support.healthy_deployment import make_healthy_deployment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.healthy_deployment import FakeDeployment

    RecordRun = Callable[[RunState], None]


@pytest.fixture
def fake(project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDeployment]:
    """A healthy deployment in which no job has run yet."""
    with FakeCloudStorage() as storage, FakeGateway() as gateway, FakeGoogleCloud() as google:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)
        monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        yield make_healthy_deployment(project, google, storage, gateway)


@pytest.fixture
def record_run(project: str) -> RecordRun:
    """Return a function that records a run of the scheduled job with a given state."""

    def store_run(state: RunState) -> None:
        asyncio.run(_store_run(project, state))

    return store_run


async def _store_run(project: str, state: RunState) -> None:
    connection = Connection(project, "(default)")
    try:
        database = Database(connection, Meter())
        run = Run(run_id=new_run_id("ingest_materials", utc_now()), state=state)
        await database.commit([Runs(database).record(run)])
    finally:
        await connection.aclose()

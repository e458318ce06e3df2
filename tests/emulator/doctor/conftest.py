"""A deployment of one's own, which is well."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from shared.core.meter import Meter
from shared.firestore.database import Connection, Database
from shared.firestore.runs import Run, Runs, RunState, new_run_id
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.google_cloud import FakeGoogleCloud
from tests.support.healthy_deployment import FakeGateway, well

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.healthy_deployment import Ward

    Record = Callable[[RunState], None]


@pytest.fixture
def ward(project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ward]:
    """A deployment that is well, but that no job ran yet."""
    with FakeCloudStorage() as storage, FakeGateway() as gateway, FakeGoogleCloud() as google:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)
        monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        yield well(project, google, storage, gateway)


@pytest.fixture
def record(project: str) -> Record:
    """Has a run of the scheduled job end in a certain way."""

    def keep(state: RunState) -> None:
        asyncio.run(_kept(project, state))

    return keep


async def _kept(project: str, state: RunState) -> None:
    from shared.core.dates import utc_now

    connection = Connection(project, "(default)")
    try:
        database = Database(connection, Meter())
        run = Run(run_id=new_run_id("ingest_materials", utc_now()), state=state)
        await database.commit([Runs(database).record(run)])
    finally:
        await connection.aclose()

"""Fixtures: fakes of Vertex AI and Cloud Storage, and a base to embed in bulk."""

from collections.abc import AsyncIterator, Iterator

import pytest

from shared.core.settings import Settings
from shared.pipeline.embedding.bulk import BulkServices
from shared.runtime.context import Context
from tests.support.bulk_embedding import open_bulk_services, open_pending_base
from tests.support.clock import SettableClock
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.vertex_batch import FakeVertexBatch


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """A fake Cloud Storage with the bucket `bulk`, to which Google's client connects."""
    with FakeCloudStorage("bulk") as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def vertex(storage: FakeCloudStorage) -> Iterator[FakeVertexBatch]:
    """A fake Vertex AI, whose batch jobs read and write in the fake Cloud Storage."""
    with FakeVertexBatch(storage) as server:
        yield server


@pytest.fixture
async def bulk(vertex: FakeVertexBatch) -> AsyncIterator[BulkServices]:
    """The services of the embed job that embed ten or more chunks in bulk."""
    async with open_bulk_services(vertex) as services:
        yield services


@pytest.fixture
async def base(
    settings: Settings, vertex: FakeVertexBatch, clock: SettableClock
) -> AsyncIterator[Context]:
    """A knowledge base of twelve pending notes."""
    async with open_pending_base(settings, vertex, clock) as ctx:
        yield ctx

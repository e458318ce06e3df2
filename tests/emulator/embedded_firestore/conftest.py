"""Fixtures of tests that bind both the embedded Firestore and Google's emulator."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.cloud.firestore import AsyncClient

from tests.support.embedded_database import open_any_index
from tests.support.emulator import make_oracle_client


@pytest.fixture(params=["emulator", "embedded"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncClient]:
    """A client of an empty database, of each kind in turn.

    The mark `emulator_differs` says what the emulator answers otherwise.
    """
    project = f"test-{uuid.uuid4().hex[:16]}"
    if request.param == "embedded":
        with open_any_index(tmp_path) as databases:
            yield databases.make_client(project)
        return
    mark = request.node.get_closest_marker("emulator_differs")
    if mark:
        request.applymarker(pytest.mark.xfail(reason=mark.args[0], strict=True))
    client = make_oracle_client(project)
    yield client
    await client._firestore_api.transport.close()  # noqa: SLF001 - there is no public one

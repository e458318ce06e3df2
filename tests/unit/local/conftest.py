"""A state folder for tests of local runs."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local import local_database, state_use
from shared.core.target import choose_target


def _close_databases() -> None:
    for durable in (True, False):
        local_database._open_databases(durable=durable).close()  # noqa: SLF001
    local_database._open_databases.cache_clear()  # noqa: SLF001
    while state_use._locks:  # noqa: SLF001
        os.close(state_use._locks.popitem()[1])  # noqa: SLF001


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty state folder, on a machine whose user has the credentials of a cloud."""
    folder = tmp_path / "state"
    files = folder / "databases" / local_database.PROJECT
    monkeypatch.setattr(local_database, "STATE", folder)
    monkeypatch.setattr(local_database, "FILES", files)
    monkeypatch.setattr(local_database, "KNOWLEDGE", files / "default.sqlite")
    monkeypatch.setattr(local_database, "LOADED_SAMPLE", files / "sample")
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    choose_target(None)
    credentials = tmp_path / "credentials.json"
    account = {"type": "service_account", "client_email": "me@real.iam.gserviceaccount.com"}
    credentials.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(credentials))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "real")
    yield folder
    _close_databases()


@pytest.fixture
def close_databases() -> Callable[[], None]:
    """A function that closes what the end of a process would close."""
    return _close_databases

"""Fixtures for tests of local runs."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from google.cloud.firestore import Client

from infra.local.emulator import PROJECT
from infra.local.emulator_daemon import StateFolder
from tests.support.local_machine import Machine
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without processes, and none are left after the test."""
    unset = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ours = {"CARREL_STATE": str(tmp_path / "state"), "EMULATOR_PORT": str(find_free_port())}
    with ExitStack() as stack:
        machine = Machine(StateFolder(tmp_path / "state"), environment | ours, stack)
        yield machine
    machine.wait_until_idle()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """Make Firestore clients; the library reads the emulator from the environment."""

    def client(host: str, project: str = PROJECT, database: str = "(default)") -> Client:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
        return Client(project=project, database=database)

    return client

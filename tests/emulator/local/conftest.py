"""Fixtures for tests that run Carrel on this machine, with a database in a state folder."""

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
    """A machine on which no emulator runs. After the test, all its processes must end."""
    omitted = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"}
    inherited = {name: value for name, value in os.environ.items() if name not in omitted}
    own = {"CARREL_STATE": str(tmp_path / "state"), "EMULATOR_PORT": str(find_free_port())}
    with ExitStack() as stack:
        machine = Machine(StateFolder(tmp_path / "state"), inherited | own, stack)
        yield machine
    machine.wait_until_idle()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """A function that makes a Firestore client for the emulator at this host and port."""

    def make_client(host: str, project: str = PROJECT, database: str = "(default)") -> Client:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)  # the only way to name the emulator
        return Client(project=project, database=database)

    return make_client

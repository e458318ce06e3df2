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
    """A machine without processes of Carrel. After the test, all that were started must end."""
    variables_of_tests = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"}
    environment = {
        name: value for name, value in os.environ.items() if name not in variables_of_tests
    }
    environment |= {"CARREL_STATE": str(tmp_path / "state")}
    environment |= {"EMULATOR_PORT": str(find_free_port())}
    with ExitStack() as stack:
        machine = Machine(StateFolder(tmp_path / "state"), environment, stack)
        yield machine
    machine.wait_until_idle()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """Return a function that makes a Firestore client of an emulator."""

    def make_client(host: str, project: str = PROJECT, database: str = "(default)") -> Client:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
        return Client(project=project, database=database)

    return make_client

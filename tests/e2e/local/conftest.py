"""Fixtures for tests that run Carrel on this machine, with its own databases."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.local_machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without data and without an emulator."""
    omitted = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "ACCESS_SECRETS"}
    inherited = {name: value for name, value in os.environ.items() if name not in omitted}
    state = tmp_path / "state"
    with ExitStack() as stack:
        yield Machine(state, inherited | {"CARREL_STATE": str(state)}, stack)

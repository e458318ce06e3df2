"""Unit tests need no database: one that opens a connection to Firestore fails at once."""

from typing import Any, NoReturn

import grpc
import grpc.aio
import pytest


@pytest.fixture(autouse=True)
def no_firestore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every gRPC channel, and hide an emulator that is running."""

    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        raise AssertionError("A unit test tried to reach Firestore: move it to tests/emulator.")

    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "no-database.invalid:1")
    for module in (grpc, grpc.aio):
        monkeypatch.setattr(module, "insecure_channel", refuse)
        monkeypatch.setattr(module, "secure_channel", refuse)

"""The data of a local run is saved periodically, and sooner after a failure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from infra.local import autosave

if TYPE_CHECKING:
    import pytest

MAX_WAIT_SECONDS: Final = 60.0
"""A save on a busy machine takes far less time."""


def test_a_failed_save_is_retried_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autosave, "RETRY_SECONDS", 0.01)
    results = [False, False, True]
    save_succeeded = threading.Event()

    def try_to_save() -> bool:
        is_saved = results.pop(0)
        if is_saved:
            save_succeeded.set()
        return is_saved

    with autosave.autosave(try_to_save, pause=0.01):
        assert save_succeeded.wait(MAX_WAIT_SECONDS)
    assert not results

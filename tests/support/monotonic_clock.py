"""A monotonic clock that tests advance, so that time limits can be long on a busy machine."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pytest

ResultT = TypeVar("ResultT")
_ROUNDS: Final = 100
"""Iterations of the event loop after which a client that sent a request waits for the answer."""


class Monotonic:
    """A replacement for `time.monotonic`, the event loop's clock, that a test can advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the real clock until the test ends. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._monotonic = time.monotonic
        self._sleep = asyncio.sleep
        self._turned = 0.0
        monkeypatch.setattr(time, "monotonic", self)

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._monotonic() + self._turned

    def turn(self, seconds: float) -> None:
        """Advance the clock, from any thread; timers that are then due fire."""
        self._turned += seconds
        self._loop.call_soon_threadsafe(lambda: None)  # wakes the loop

    def turn_soon(self, seconds: float) -> None:
        """Advance the clock once the clients of a server that hangs wait for it."""
        self._loop.call_soon_threadsafe(self._turn_after, _ROUNDS, seconds)

    def _turn_after(self, rounds: int, seconds: float) -> None:
        if rounds:
            self._loop.call_soon(self._turn_after, rounds - 1, seconds)
        else:
            self.turn(seconds)

    async def sleep(self, delay: float, result: ResultT | None = None) -> ResultT | None:
        """Advance the clock instead of sleeping."""
        self.turn(delay)
        return await self._sleep(0, result)

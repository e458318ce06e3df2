"""A monotonic clock that tests advance, so that time limits can be long on a busy machine."""

import asyncio
import time
from typing import Final, TypeVar

import pytest

ResultT = TypeVar("ResultT")
_ITERATIONS: Final = 100
"""The number of iterations of the event loop after which every client has sent its request."""


class MonotonicClock:
    """A replacement for `time.monotonic`, the event loop's clock, that a test can advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the real clock until the test ends. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._monotonic = time.monotonic
        self._sleep = asyncio.sleep
        self._offset = 0.0
        monkeypatch.setattr(time, "monotonic", self)

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Advance the clock from any thread, and wake the event loop to run timers that are due."""
        self._offset += seconds
        self._loop.call_soon_threadsafe(lambda: None)

    def advance_soon(self, seconds: float) -> None:
        """Advance the clock after all clients of a hanging server have sent their requests."""
        self._loop.call_soon_threadsafe(self._advance_after, _ITERATIONS, seconds)

    def _advance_after(self, iterations: int, seconds: float) -> None:
        if iterations:
            self._loop.call_soon(self._advance_after, iterations - 1, seconds)
        else:
            self.advance(seconds)

    async def sleep(self, delay: float, result: ResultT | None = None) -> ResultT | None:
        """Advance the clock instead of sleeping."""
        self.advance(delay)
        return await self._sleep(0, result)

"""A clock that tests turn: limits can be so long that a busy machine does not run into them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pytest

ResultT = TypeVar("ResultT")
_ROUNDS: Final = 100
"""Rounds of the event loop in which a client that sent a request comes to wait for the answer."""


class Monotonic:
    """Stands for `time.monotonic`, and so for the event loop's clock: it runs and can be turned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the real clock's place until the test ends; call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._monotonic = time.monotonic
        self._sleep = asyncio.sleep
        self._turned = 0.0
        monkeypatch.setattr(time, "monotonic", self)

    def __call__(self) -> float:
        """The time, in seconds."""
        return self._monotonic() + self._turned

    def turn(self, seconds: float) -> None:
        """Let time pass, from any thread; timers that are then due go off."""
        self._turned += seconds
        self._loop.call_soon_threadsafe(lambda: None)  # else it would sleep on

    def turn_soon(self, seconds: float) -> None:
        """The same for a server that does not answer: first its client begins to wait."""
        self._loop.call_soon_threadsafe(self._turn_after, _ROUNDS, seconds)

    def _turn_after(self, rounds: int, seconds: float) -> None:
        if rounds:
            self._loop.call_soon(self._turn_after, rounds - 1, seconds)
        else:
            self.turn(seconds)

    async def sleep(self, delay: float, result: ResultT | None = None) -> ResultT | None:
        """Like `asyncio.sleep`, but it turns the clock and goes on at once."""
        self.turn(delay)
        return await self._sleep(0, result)

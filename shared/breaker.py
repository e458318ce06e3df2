"""A circuit breaker: whoever keeps failing is left alone for a while.

closed      calls pass; several failures in a row open it
open        calls are refused at once, until a pause is over
half-open   one call goes through, the probe: its success closes the breaker, its failure opens it

Michael Nygard, "Release It!", 2007, chapter "Stability Patterns".
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from shared.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES: Final = 5
"""Failures in a row that are no chance any more."""
PAUSE: Final = 30.0
"""Seconds that the other side is left alone."""
SOON: Final = 5.0
"""Seconds to suggest to those who come while a probe is under way."""
LOST_AFTER: Final = 3
"""Pauses after which a probe that has not reported never will."""


class Breaker:
    """Guards the calls of one function or one upstream, on one event loop.

    A `check` that lets a call through is followed by what became of the call: `succeeded`, `failed`
    or `abandoned`. Reports name no call: while calls last no longer than the pause, whoever reports
    after it is the probe.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        failures: int = FAILURES,
        pause: float = PAUSE,
    ) -> None:
        """Begin closed.

        Args:
            name: Who is called, for the words of a refusal.
            clock: Seconds, never fewer than before.
            failures: How many in a row open it.
            pause: Seconds from then to the probe.
        """
        self._name = name
        self._clock = clock
        self._most = failures
        self._pause = pause
        self._in_a_row = 0
        self._refusing_until = -math.inf
        self._probing = False

    def check(self) -> None:
        """Let a call through, or not.

        Raises:
            Unavailable: The breaker is open, or a probe is under way; `retry_after` says how long.
        """
        if self._in_a_row < self._most:
            return
        wait = self._refusing_until - self._clock()
        if wait <= 0:
            self._probing = True
            self._refusing_until = self._clock() + LOST_AFTER * self._pause
            return
        seconds = math.ceil(min(wait, SOON) if self._probing else wait)
        message = f"{self._name} is temporarily unavailable: try again in {seconds} s."
        raise Unavailable(message, retry_after=seconds)

    def succeeded(self) -> None:
        """The other side is well, whatever it answered."""
        self._in_a_row = 0
        self._probing = False

    def failed(self) -> None:
        """The other side did not answer, or answered that it is broken."""
        if self._probing or self._in_a_row < self._most:
            self._in_a_row += 1
            self._probing = False
            self._refusing_until = self._clock() + self._pause

    def abandoned(self) -> None:
        """Nothing was learned: the call was cancelled, or never sent."""
        if self._probing:
            self._probing = False
            self._refusing_until = self._clock()

"""A circuit breaker: whoever keeps failing is left alone for a while.

closed      calls pass; several failures in a row open it
open        calls are refused at once, until a pause is over
half-open   one call goes through, the probe: its success closes the breaker, its failure opens it

Michael Nygard, "Release It!", 2007, chapter "Stability Patterns".
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAILURE_THRESHOLD: Final = 5
"""Failures in a row that are no chance any more."""
OPEN_SECONDS: Final = 30.0
"""Seconds that the other side is left alone."""
PROBE_RETRY_SECONDS: Final = 5
"""Seconds to suggest to those who come while a probe is under way."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A call that was let through.

    Attributes:
        well: Whether the other side is, whatever it answered. None: nothing was learned, for the
            call was cancelled, or never sent.
    """

    well: bool | None = None


class CircuitBreaker:
    """Guards the calls of one function or one upstream, on one event loop."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        failures: int = FAILURE_THRESHOLD,
        pause: float = OPEN_SECONDS,
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
        self._probe: Attempt | None = None

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Let a call through, or not, and learn from what the call says of the other side.

        Raises:
            Unavailable: The breaker is open, or a probe is under way; `retry_after` says how long.
        """
        attempt = Attempt()
        self._admit(attempt)
        try:
            yield attempt
        finally:
            self._learn(attempt)

    def _admit(self, attempt: Attempt) -> None:
        if self._in_a_row < self._most:
            return
        wait = self._refusing_until - self._clock()
        if wait <= 0 and self._probe is None:
            self._probe = attempt
            return
        seconds = math.ceil(wait) if wait > 0 else PROBE_RETRY_SECONDS
        message = f"{self._name} is temporarily unavailable: try again in {seconds} s."
        raise Unavailable(message, retry_after=seconds)

    def _learn(self, attempt: Attempt) -> None:
        """Whoever succeeds closes it. Of failures, those that come late do not prolong a pause."""
        is_probe = attempt is self._probe
        if is_probe:
            self._probe = None
        if attempt.well:
            self._in_a_row = 0
        elif attempt.well is False and (is_probe or self._in_a_row < self._most):
            self._in_a_row += 1
            self._refusing_until = self._clock() + self._pause

"""A circuit breaker: after several failures in a row, a service gets no calls for a while.

closed      calls pass; several failures in a row open the breaker
open        calls are rejected at once, until a pause is over
half-open   one call, the probe, passes; its success closes the breaker, its failure reopens it

Michael Nygard, "Release It!", 2007, chapter "Stability Patterns".
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import CarrelError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAILURE_THRESHOLD: Final = 5
"""The number of failures in a row that opens a breaker."""
OPEN_SECONDS: Final = 30.0
"""How long a breaker stays open before the probe."""
PROBE_RETRY_SECONDS: Final = 5
"""The `retry_after` of calls that are rejected while a probe is running."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A call that passed the breaker.

    Attributes:
        healthy: Whether the service responded, even with an error. None if the call was cancelled
            or never sent, so that nothing is known about the service.
    """

    healthy: bool | None = None


class CircuitBreaker:
    """Guards the calls of one service, on one event loop."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        failures: int = FAILURE_THRESHOLD,
        pause: float = OPEN_SECONDS,
    ) -> None:
        """Create a closed breaker.

        Args:
            name: The service's name, for error messages.
            clock: Returns the time in seconds, which must never decrease.
            failures: How many failures in a row open the breaker.
            pause: How many seconds the breaker stays open before the probe.
        """
        self._name = name
        self._clock = clock
        self._threshold = failures
        self._pause = pause
        self._failures = 0
        self._open_until = -math.inf
        self._probe: Attempt | None = None

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Admit or reject a call, and record its result when the `with` block ends.

        Raises:
            Unavailable: The breaker is open, or a probe is running; `retry_after` is set.
        """
        attempt = Attempt()
        self._admit(attempt)
        try:
            yield attempt
        finally:
            self._record(attempt)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Admit or reject a call of a service that is healthy unless it raises `Unavailable`.

        Raises:
            Unavailable: See `attempt`.
        """
        with self.attempt() as attempt:
            try:
                yield
            except CarrelError as error:
                attempt.healthy = not isinstance(error, Unavailable)
                raise
            attempt.healthy = True

    def _admit(self, attempt: Attempt) -> None:
        if self._failures < self._threshold:
            return
        wait = self._open_until - self._clock()
        if wait <= 0 and self._probe is None:
            self._probe = attempt
            return
        seconds = math.ceil(wait) if wait > 0 else PROBE_RETRY_SECONDS
        message = f"{self._name} is temporarily unavailable: try again in {seconds} s."
        raise Unavailable(message, retry_after=seconds)

    def _record(self, attempt: Attempt) -> None:
        """Count a failure, or close the breaker after a success.

        While the breaker is open, only the probe's failure prolongs the pause, not the failures of
        calls that began earlier.
        """
        is_probe = attempt is self._probe
        if is_probe:
            self._probe = None
        if attempt.healthy:
            self._failures = 0
        elif attempt.healthy is False and (is_probe or self._failures < self._threshold):
            self._failures += 1
            self._open_until = self._clock() + self._pause

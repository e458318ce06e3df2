"""The circuit breaker admits no calls to a service for a pause after failures in a row.

After the pause it admits one call, the probe, whose result closes it or opens it again.
"""

import asyncio
import math
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.core.circuit_breaker import (
    FAILURE_THRESHOLD,
    OPEN_SECONDS,
    PROBE_RETRY_SECONDS,
    Attempt,
    CircuitBreaker,
)
from shared.core.errors import Unavailable
from tests.support.clock import SettableMonotonicClock


class Call:
    def __init__(self, breaker: CircuitBreaker) -> None:
        self._stack = ExitStack()
        self._attempt: Attempt = self._stack.enter_context(breaker.attempt())

    def end(self, *, healthy: bool | None) -> None:
        """End the call; `healthy` is None if it says nothing about the service."""
        self._attempt.healthy = healthy
        self._stack.close()


@pytest.fixture
def clock() -> SettableMonotonicClock:
    return SettableMonotonicClock()


@pytest.fixture
def breaker(clock: SettableMonotonicClock) -> CircuitBreaker:
    return CircuitBreaker("The oven", clock)


def admits_call(breaker: CircuitBreaker) -> bool:
    """Return whether the breaker admits a call; the call ends without a result."""
    try:
        Call(breaker).end(healthy=None)
    except Unavailable:
        return False
    return True


def fail_calls(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        Call(breaker).end(healthy=False)


def test_five_failures_in_a_row_open_the_breaker_for_a_pause(
    breaker: CircuitBreaker, clock: SettableMonotonicClock
) -> None:
    fail_calls(breaker, FAILURE_THRESHOLD)
    clock.now += OPEN_SECONDS - 12.5
    with pytest.raises(Unavailable) as caught:
        Call(breaker)
    assert caught.value.retry_after == 13
    assert caught.value.message == "The oven is temporarily unavailable: try again in 13 s."
    clock.now += 12.5
    assert admits_call(breaker)


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
def test_a_probe_that_raises_is_replaced(
    breaker: CircuitBreaker, clock: SettableMonotonicClock, error: type[BaseException]
) -> None:
    fail_calls(breaker, FAILURE_THRESHOLD)
    clock.now += OPEN_SECONDS
    with pytest.raises(error), breaker.attempt():
        raise error
    assert admits_call(breaker)


class History(RuleBasedStateMachine):
    """Compare the breaker with a simple model of it over random calls."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableMonotonicClock()
        self.breaker = CircuitBreaker("It", self.clock)
        self.under_way: list[Call] = []
        self.probes: list[Call] = []
        self.failures_in_a_row = 0
        self.failed_at = 0.0

    @rule()
    def call(self) -> None:
        expected = self.compute_expected_wait()
        try:
            call = Call(self.breaker)
        except Unavailable as error:
            assert error.retry_after == expected  # noqa: PT017 - there may be none
            return
        assert expected is None
        self.under_way.append(call)
        if self.is_open:
            self.probes.append(call)

    @property
    def is_open(self) -> bool:
        return self.failures_in_a_row >= FAILURE_THRESHOLD

    def compute_expected_wait(self) -> float | None:
        """Return the expected `retry_after` of a call; None if it should pass."""
        if not self.is_open:
            return None
        wait = math.ceil(self.failed_at + OPEN_SECONDS - self.clock.now)
        if wait > 0:
            return wait
        return PROBE_RETRY_SECONDS if self.probes else None

    @precondition(lambda self: not self.is_open)
    @rule(waiting_calls=st.integers(0, 3))
    def break_down(self, waiting_calls: int) -> None:
        """Let calls fail until none passes, while others are still running."""
        for _ in range(waiting_calls):
            self.call()
        while not self.is_open:
            self.call()
            self.end(self.under_way[-1], healthy=False)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), healthy=st.sampled_from([True, False, None]))
    def end_one(self, data: st.DataObject, *, healthy: bool | None) -> None:
        self.end(data.draw(st.sampled_from(self.under_way)), healthy=healthy)

    def end(self, call: Call, *, healthy: bool | None) -> None:
        call.end(healthy=healthy)
        counts = call in self.probes or not self.is_open
        self.under_way.remove(call)
        self.probes = [probe for probe in self.probes if probe is not call]
        if healthy:
            self.failures_in_a_row = 0
        elif healthy is False and counts:
            self.failures_in_a_row += 1
            self.failed_at = self.clock.now

    @rule(seconds=st.sampled_from([0.25, 4, OPEN_SECONDS - 4, OPEN_SECONDS, 10 * OPEN_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def at_most_one_probe_runs(self) -> None:
        assert len(self.probes) <= 1


@pytest.mark.requirement("002-C6")
@pytest.mark.parametrize("histories", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_the_breaker_matches_a_model_in_random_histories(histories: int) -> None:
    run_state_machine_as_test(
        History, settings=settings(max_examples=histories, stateful_step_count=40)
    )

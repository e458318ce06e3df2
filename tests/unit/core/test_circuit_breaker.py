"""The circuit breaker, by hand and by thousands of random histories."""

from __future__ import annotations

import asyncio
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

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
    CircuitBreaker,
)
from shared.core.errors import Unavailable
from tests.support.clock import SettableSeconds

if TYPE_CHECKING:
    from shared.core.circuit_breaker import Attempt


class Call:
    """A call that is under way until it is said how it ends."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._under_way = ExitStack()
        self._attempt: Attempt = self._under_way.enter_context(breaker.attempt())

    def end(self, *, well: bool | None) -> None:
        self._attempt.well = well
        self._under_way.close()


@pytest.fixture
def seconds() -> SettableSeconds:
    return SettableSeconds()


@pytest.fixture
def breaker(seconds: SettableSeconds) -> CircuitBreaker:
    return CircuitBreaker("The oven", seconds)


def passes(breaker: CircuitBreaker) -> bool:
    """Whether a call is let through, of which nothing is learned."""
    try:
        Call(breaker).end(well=None)
    except Unavailable:
        return False
    return True


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        Call(breaker).end(well=False)


def test_four_failures_in_a_row_are_forgiven(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURE_THRESHOLD - 1)
    assert passes(breaker)


def test_after_five_failures_in_a_row_nobody_passes_for_a_pause(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS - 12.5
    with pytest.raises(Unavailable) as caught:
        Call(breaker)
    assert 13 == caught.value.retry_after
    assert "The oven is temporarily unavailable: try again in 13 s." == caught.value.message
    seconds.now += 12.5
    assert passes(breaker)


def test_a_success_in_between_begins_a_new_row(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURE_THRESHOLD - 1)
    Call(breaker).end(well=True)
    fail(breaker, FAILURE_THRESHOLD - 1)
    assert passes(breaker)


def test_an_abandoned_call_neither_breaks_nor_joins_a_row(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURE_THRESHOLD - 1)
    Call(breaker).end(well=None)
    assert passes(breaker)
    fail(breaker, 1)
    assert not passes(breaker)


def test_during_a_probe_others_are_told_to_come_back_soon(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    with breaker.attempt(), pytest.raises(Unavailable) as caught:
        Call(breaker)
    assert PROBE_RETRY_SECONDS == caught.value.retry_after


def test_a_probe_that_succeeds_lets_everybody_through(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    Call(breaker).end(well=True)
    fail(breaker, FAILURE_THRESHOLD - 1)
    assert passes(breaker)


def test_one_probe_that_fails_begins_another_pause(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    fail(breaker, 1)
    seconds.now += OPEN_SECONDS - 1
    assert not passes(breaker)
    seconds.now += 1
    assert passes(breaker)


def test_an_abandoned_probe_makes_room_for_another_at_once(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    Call(breaker).end(well=None)
    with breaker.attempt():
        assert not passes(breaker)


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
def test_a_probe_that_raises_makes_room_for_another(
    breaker: CircuitBreaker, seconds: SettableSeconds, error: type[BaseException]
) -> None:
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    with pytest.raises(error), breaker.attempt():
        raise error
    assert passes(breaker)


@pytest.mark.parametrize("well", [None, False])
def test_an_old_call_that_ends_during_a_probe_admits_no_second(
    breaker: CircuitBreaker, seconds: SettableSeconds, *, well: bool | None
) -> None:
    """A write may take longer than the pause."""
    early = Call(breaker)
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS
    with breaker.attempt():
        early.end(well=well)
        seconds.now += 10 * OPEN_SECONDS
        assert not passes(breaker)
    assert passes(breaker)


def test_a_call_from_before_that_succeeds_lets_everybody_through(breaker: CircuitBreaker) -> None:
    early = Call(breaker)
    fail(breaker, FAILURE_THRESHOLD)
    early.end(well=True)
    assert passes(breaker)


def test_a_late_failure_does_not_make_the_pause_longer(
    breaker: CircuitBreaker, seconds: SettableSeconds
) -> None:
    early = Call(breaker)
    fail(breaker, FAILURE_THRESHOLD)
    seconds.now += OPEN_SECONDS - 1
    early.end(well=False)
    seconds.now += 1
    assert passes(breaker)


class History(RuleBasedStateMachine):
    """Calls that begin and end, or last for as long as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableSeconds()
        self.breaker = CircuitBreaker("It", self.clock)
        self.under_way: list[Call] = []
        self.probes: list[Call] = []
        self.in_a_row = 0
        self.failed_at = 0.0

    @rule()
    def call(self) -> None:
        expected = self.wait_to_expect()
        try:
            call = Call(self.breaker)
        except Unavailable as error:
            assert expected == error.retry_after  # noqa: PT017 - there may be none
            return
        assert expected is None
        self.under_way.append(call)
        if self.is_open:
            self.probes.append(call)

    @property
    def is_open(self) -> bool:
        return self.in_a_row >= FAILURE_THRESHOLD

    def wait_to_expect(self) -> float | None:
        """How long a call should be told to wait, by what has happened; None: it goes through."""
        if not self.is_open:
            return None
        wait = math.ceil(self.failed_at + OPEN_SECONDS - self.clock.now)
        if wait > 0:
            return wait
        return PROBE_RETRY_SECONDS if self.probes else None

    @precondition(lambda self: not self.is_open)
    @rule(others=st.integers(0, 3))
    def break_down(self, others: int) -> None:
        """Calls fail until no more is let through; the answers to others are still to come."""
        for _ in range(others):
            self.call()
        while not self.is_open:
            self.call()
            self.end(self.under_way[-1], well=False)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), well=st.sampled_from([True, False, None]))
    def end_one(self, data: st.DataObject, *, well: bool | None) -> None:
        self.end(data.draw(st.sampled_from(self.under_way)), well=well)

    def end(self, call: Call, *, well: bool | None) -> None:
        call.end(well=well)
        counts = call in self.probes or not self.is_open
        self.under_way.remove(call)
        self.probes = [each for each in self.probes if each is not call]
        if well:
            self.in_a_row = 0
        elif well is False and counts:
            self.in_a_row += 1
            self.failed_at = self.clock.now

    @rule(passed=st.sampled_from([0.25, 4, OPEN_SECONDS - 4, OPEN_SECONDS, 10 * OPEN_SECONDS]))
    def wait(self, passed: float) -> None:
        self.clock.now += passed

    @invariant()
    def one_call_at_most_finds_out(self) -> None:
        assert len(self.probes) <= 1


@pytest.mark.parametrize("histories", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_in_any_history_it_opens_probes_and_closes_as_it_should(histories: int) -> None:
    run_state_machine_as_test(
        History, settings=settings(max_examples=histories, stateful_step_count=40)
    )

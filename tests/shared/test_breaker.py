"""The circuit breaker, by hand and by thousands of random histories."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.breaker import FAILURES, LOST_AFTER, PAUSE, SOON, Breaker
from shared.errors import Unavailable


class Seconds:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def breaker(seconds: Seconds) -> Breaker:
    return Breaker("The oven", seconds)


def passes(breaker: Breaker) -> bool:
    """Whether a call is let through."""
    try:
        breaker.check()
    except Unavailable:
        return False
    return True


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.check()
        breaker.failed()


def test_four_failures_in_a_row_are_forgiven(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    assert passes(breaker)


def test_after_five_failures_in_a_row_nobody_is_let_through_until_the_pause_is_over(
    breaker: Breaker, seconds: Seconds
) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE - 12.5
    with pytest.raises(Unavailable) as caught:
        breaker.check()
    assert 13 == caught.value.retry_after
    assert "The oven is temporarily unavailable: try again in 13 s." == caught.value.message
    seconds.now += 12.5
    assert passes(breaker)


def test_a_success_in_between_begins_a_new_row(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    breaker.succeeded()
    fail(breaker, FAILURES - 1)
    assert passes(breaker)


def test_what_was_abandoned_neither_breaks_a_row_nor_belongs_to_it(breaker: Breaker) -> None:
    fail(breaker, FAILURES - 1)
    breaker.abandoned()
    assert passes(breaker)
    breaker.failed()
    assert not passes(breaker)


def test_while_a_probe_is_under_way_others_are_told_to_come_back_soon(
    breaker: Breaker, seconds: Seconds
) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE
    assert passes(breaker)
    with pytest.raises(Unavailable) as caught:
        breaker.check()
    assert caught.value.retry_after == SOON


def test_a_probe_that_succeeds_lets_everybody_through(breaker: Breaker, seconds: Seconds) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE
    breaker.check()
    breaker.succeeded()
    fail(breaker, FAILURES - 1)
    assert passes(breaker)


def test_one_probe_that_fails_begins_another_pause(breaker: Breaker, seconds: Seconds) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE
    fail(breaker, 1)
    seconds.now += PAUSE - 1
    assert not passes(breaker)
    seconds.now += 1
    assert passes(breaker)


def test_a_probe_that_was_abandoned_makes_room_for_another_at_once(
    breaker: Breaker, seconds: Seconds
) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE
    breaker.check()
    breaker.abandoned()
    assert [True, False] == [passes(breaker), passes(breaker)]


def test_a_probe_that_never_reports_does_not_close_the_way_for_ever(
    breaker: Breaker, seconds: Seconds
) -> None:
    fail(breaker, FAILURES)
    seconds.now += PAUSE
    breaker.check()
    seconds.now += LOST_AFTER * PAUSE
    assert [True, False] == [passes(breaker), passes(breaker)]


def test_a_failure_that_comes_late_does_not_make_the_pause_longer(
    breaker: Breaker, seconds: Seconds
) -> None:
    breaker.check()
    fail(breaker, FAILURES)
    seconds.now += PAUSE - 1
    breaker.failed()
    seconds.now += 1
    assert passes(breaker)


class History(RuleBasedStateMachine):
    """Calls that begin, end or vanish, none of them longer than the pause."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Seconds()
        self.breaker = Breaker("It", self.clock)
        self.begun: list[float] = []
        self.in_a_row = 0
        self.opened_at: float | None = None
        self.probed_at: float | None = None

    @rule()
    def call(self) -> None:
        expected = self.wait_to_expect()
        try:
            self.breaker.check()
        except Unavailable as error:
            assert expected == error.retry_after  # noqa: PT017 - there may be none
            return
        assert expected is None
        self.begun.append(self.clock.now)
        if self.opened_at is not None:
            self.probed_at = self.clock.now

    def wait_to_expect(self) -> float | None:
        """How long a call should be told to wait, by what has happened; None: it goes through."""
        if self.opened_at is None:
            return None
        if self.probed_at is None:
            wait = math.ceil(self.opened_at + PAUSE - self.clock.now)
            return wait if wait > 0 else None
        wait = math.ceil(self.probed_at + LOST_AFTER * PAUSE - self.clock.now)
        return min(wait, SOON) if wait > 0 else None

    @precondition(lambda self: self.opened_at is None)
    @rule(others=st.integers(0, 3))
    def break_down(self, others: int) -> None:
        """Calls fail until no more is let through; the answers to others are still to come."""
        for _ in range(others):
            self.call()
        while self.opened_at is None:
            self.call()
            self.begun.pop()
            self._failed()

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        self._end(data)
        self.breaker.succeeded()
        self.in_a_row, self.opened_at, self.probed_at = 0, None, None

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self._end(data)
        self._failed()

    def _failed(self) -> None:
        self.breaker.failed()
        self.in_a_row += 1
        opens = self.opened_at is None and self.in_a_row >= FAILURES
        if opens or self.probed_at is not None:
            self.opened_at, self.probed_at = self.clock.now, None

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        self._end(data)
        self.breaker.abandoned()
        if self.probed_at is not None:
            self.opened_at, self.probed_at = self.clock.now - PAUSE, None

    @rule(data=st.data())
    @precondition(lambda self: self.begun)
    def vanish(self, data: st.DataObject) -> None:
        self._end(data)

    @rule(passed=st.sampled_from([0.25, 4, PAUSE - 4, PAUSE, LOST_AFTER * PAUSE]))
    def wait(self, passed: float) -> None:
        self.clock.now += passed
        self.begun = [each for each in self.begun if self.clock.now - each <= PAUSE]

    def _end(self, data: st.DataObject) -> None:
        self.begun.remove(data.draw(st.sampled_from(self.begun)))


def test_in_any_history_it_opens_probes_and_closes_as_it_should() -> None:
    run_state_machine_as_test(
        History, settings=settings(max_examples=300, stateful_step_count=40, deadline=None)
    )

"""The states of a grant, from its code to its revocation, in any order of events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.accounts.grant import CODE_LIFETIME, IDLE_LIFETIME, ROTATION_OVERLAP, Grant, Proof
from shared.core.caller import FULL_ACCESS

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NEW = Grant(
    grant_id="g",
    user_id="ada",
    client_id="c",
    scopes=FULL_ACCESS,
    code_challenge="x" * 43,
    redirect_uri="https://program.example/back",
    redirect_uri_given=True,
    proof=Proof(user_id="ada", kind="google", email="ada@example.com"),
    created_at=NOON,
    expires_at=NOON + CODE_LIFETIME,
)
USED = NEW.exchange_code(NOON).refresh(1, NOON).refresh(2, NOON)

seconds = st.integers(0, 200).map(lambda count: timedelta(seconds=count))
steps = st.lists(st.tuples(seconds, st.none() | st.integers(0, 5)), max_size=8)


def test_a_code_makes_a_first_generation_and_lasts_five_minutes() -> None:
    used = NEW.exchange_code(NOON + timedelta(minutes=4))
    assert used.generation == 1
    assert used.expires_at == NOON + timedelta(minutes=4) + IDLE_LIFETIME
    assert NEW.exchange_code(NOON + CODE_LIFETIME) == NEW
    assert not NEW.is_valid(NOON + CODE_LIFETIME)


def test_unexchanged_code_cannot_be_refreshed() -> None:
    assert NEW.refresh(0, NOON).ended_at == NOON
    assert NEW.refresh(1, NOON).ended_at == NOON


def test_the_current_token_rotates_and_the_last_one_overlaps() -> None:
    assert USED.refresh(3, NOON).generation == 4
    assert USED.refresh(2, NOON + ROTATION_OVERLAP) == USED
    assert USED.refresh(2, NOON + ROTATION_OVERLAP * 2) == USED.end(NOON + ROTATION_OVERLAP * 2)
    assert USED.refresh(1, NOON) == USED.end(NOON)


@given(seconds, st.integers(-3, 9), seconds)
def test_ended_grant_stays_ended(first: timedelta, generation: int, later: timedelta) -> None:
    ended = USED.end(NOON + first)
    now = NOON + first + later
    assert {ended.exchange_code(now), ended.refresh(generation, now), ended.end(now)} == {ended}
    assert not ended.is_valid(now)


@given(steps)
def test_generation_is_reissued_only_to_simultaneous_calls(
    steps: list[tuple[timedelta, int | None]],
) -> None:
    grant, now, made = NEW, NOON, {0: NOON}
    for wait, brought in steps:
        now += wait
        before = grant
        grant = grant.exchange_code(now) if brought is None else grant.refresh(brought, now)
        expected = 0 if brought is None else brought
        assert grant.generation - before.generation in (0, 1)
        if grant.generation > before.generation:
            assert before.generation == expected
            assert grant.is_valid(now)
            made[grant.generation] = now
        elif grant.is_valid(now):
            assert expected == grant.generation - 1 > 0
            assert now - made[grant.generation] <= ROTATION_OVERLAP


@given(st.integers(3, 9), seconds)
def test_token_of_a_future_generation_ends_the_grant(ahead: int, wait: timedelta) -> None:
    assert USED.refresh(USED.generation + ahead, NOON + wait).ended_at == NOON + wait


def test_expired_grant_is_not_ended_again() -> None:
    expired = replace(USED, expires_at=NOON)
    assert expired.refresh(1, NOON) == expired
    assert not expired.is_valid(NOON)

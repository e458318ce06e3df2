"""A grant (an OAuth authorization) goes from its code to its end, in any order of events.

A code makes generation 1 of the grant's refresh token, and each refresh makes the next generation.
A token that comes back after its exchange is answered by the table in `shared/accounts/grant.py`.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.accounts.grant import CODE_LIFETIME, IDLE_LIFETIME, ROTATION_OVERLAP, Grant, Proof
from shared.core.caller import FULL_ACCESS

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NEW_GRANT = Grant(
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
HOME, CAFE = "home", "cafe"
REFRESHED_GRANT = NEW_GRANT.exchange_code(NOON).refresh(1, NOON, HOME).refresh(2, NOON, HOME)
"""A grant whose refresh token is of generation 3."""

WAITS = st.integers(0, 200).map(lambda count: timedelta(seconds=count))
NETWORKS = st.sampled_from([HOME, CAFE])
STEPS = st.lists(st.tuples(WAITS, st.none() | st.integers(0, 5), NETWORKS), max_size=8)
"""Each step waits, then refreshes with a token of a generation, or exchanges the code (None)."""


def test_a_code_makes_a_first_generation_and_lasts_five_minutes() -> None:
    grant = NEW_GRANT.exchange_code(NOON + timedelta(minutes=4))
    assert grant.generation == 1
    assert grant.expires_at == NOON + timedelta(minutes=4) + IDLE_LIFETIME
    assert NEW_GRANT.exchange_code(NOON + CODE_LIFETIME) == NEW_GRANT
    assert not NEW_GRANT.is_valid(NOON + CODE_LIFETIME)


def test_a_grant_whose_code_is_unused_cannot_be_refreshed() -> None:
    assert NEW_GRANT.refresh(0, NOON, HOME).ended_at == NOON
    assert NEW_GRANT.refresh(1, NOON, HOME).ended_at == NOON


def test_the_current_token_rotates_and_the_last_one_overlaps() -> None:
    assert REFRESHED_GRANT.refresh(3, NOON, CAFE).generation == 4
    assert REFRESHED_GRANT.refresh(2, NOON + ROTATION_OVERLAP, CAFE) == REFRESHED_GRANT
    after_overlap = NOON + ROTATION_OVERLAP * 2
    assert REFRESHED_GRANT.refresh(2, after_overlap, HOME) == REFRESHED_GRANT
    assert REFRESHED_GRANT.refresh(2, after_overlap, CAFE).generation == 4
    assert REFRESHED_GRANT.refresh(1, NOON, HOME) == REFRESHED_GRANT.end(NOON)


@given(WAITS, st.integers(-3, 9), WAITS)
def test_ended_grant_stays_ended(wait: timedelta, generation: int, further_wait: timedelta) -> None:
    ended_grant = REFRESHED_GRANT.end(NOON + wait)
    now = NOON + wait + further_wait
    assert {
        ended_grant.exchange_code(now),
        ended_grant.refresh(generation, now, HOME),
        ended_grant.end(now),
    } == {ended_grant}
    assert not ended_grant.is_valid(now)


@given(STEPS)
def test_a_late_repeat_goes_only_to_a_network_that_has_it(
    steps: list[tuple[timedelta, int | None, str]],
) -> None:
    grant = NEW_GRANT
    now = NOON
    holders: dict[int, set[str]] = {}
    for wait, token_generation, network in steps:
        now += wait
        previous_grant = grant
        if token_generation is None:
            grant = grant.exchange_code(now)
        else:
            grant = grant.refresh(token_generation, now, network)
        if token_generation is None or not grant.is_valid(now):
            continue
        assert grant.generation - previous_grant.generation in {0, 1}
        if now - (grant.rotated_at or now) > ROTATION_OVERLAP:
            assert holders[grant.generation] >= {network}
        holders.setdefault(grant.generation, set()).add(network)


@given(st.integers(3, 9), WAITS)
def test_token_of_a_future_generation_ends_the_grant(ahead: int, wait: timedelta) -> None:
    future_generation = REFRESHED_GRANT.generation + ahead
    assert REFRESHED_GRANT.refresh(future_generation, NOON + wait, HOME).ended_at == NOON + wait


def test_expired_grant_is_not_ended_again() -> None:
    expired_grant = replace(REFRESHED_GRANT, expires_at=NOON)
    assert expired_grant.refresh(1, NOON, HOME) == expired_grant
    assert not expired_grant.is_valid(NOON)


@pytest.mark.parametrize(
    "proof",
    [
        {"kind": "key"},
        {"kind": "key", "email": "ada@example.com"},
        {"kind": "google"},
        {"kind": "google", "key_id": "k", "email": "ada@example.com"},
        {"user_id": "", "kind": "google", "email": "ada@example.com"},
        {"kind": "password", "key_id": "k"},
    ],
)
def test_an_incomplete_proof_is_rejected(proof: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a proof needs a user"):
        Proof(**{"user_id": "ada"} | proof)

"""A caller may call a tool if the credential's scope and the user's role include it."""

from __future__ import annotations

import pytest

from shared.core.caller import FULL_ACCESS, Caller, Role, Scope, Tier, add_implied_scopes

READ, WRITE, CURATE = Scope.READ, Scope.WRITE, Scope.CURATE


@pytest.mark.parametrize(
    ("scopes", "implied_scopes"),
    [((), ()), ((READ,), (READ,)), ((WRITE,), (READ, WRITE)), ((CURATE,), (READ, WRITE, CURATE))],
)
def test_a_scope_implies_those_before_it(
    scopes: tuple[Scope, ...], implied_scopes: tuple[Scope, ...]
) -> None:
    assert add_implied_scopes(frozenset(scopes)) == frozenset(implied_scopes)


@pytest.mark.parametrize(
    ("role", "included_roles"),
    [
        (Role.READER, {Role.READER}),
        (Role.EDITOR, {Role.READER, Role.EDITOR}),
        (Role.OWNER, set(Role)),
    ],
)
def test_a_role_includes_those_before_it(role: Role, included_roles: set[Role]) -> None:
    assert {other_role for other_role in Role if role.includes(other_role)} == included_roles


def test_curating_needs_the_role_and_the_scope() -> None:
    """A grant from before there were roles has the scope `carrel:write`, and gains nothing."""
    earlier_grant = Caller.of("anna", frozenset({READ, WRITE}), role=Role.OWNER)
    reader = Caller.of("anna", FULL_ACCESS)
    owner = Caller.of("anna", FULL_ACCESS, role=Role.OWNER)
    assert not earlier_grant.may_call(Tier.REGISTERED, CURATE, Role.OWNER)
    assert not reader.may_call(Tier.REGISTERED, CURATE, Role.OWNER)
    assert owner.may_call(Tier.REGISTERED, CURATE, Role.OWNER)


def test_an_anonymous_caller_is_a_reader() -> None:
    assert Caller().role is Role.READER

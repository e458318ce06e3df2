"""A caller may call a tool if the credential's scope and the user's role include it."""

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


def test_a_role_includes_those_before_it() -> None:
    included = [[role.includes(other) for other in Role] for role in Role]
    assert included == [[True, False, False], [True, True, False], [True, True, True]]
    assert Caller().role is next(iter(Role)) is Role.READER


def test_curating_needs_the_role_and_the_scope() -> None:
    """A grant from before there were roles has the scope `carrel:write`, and gains nothing."""
    earlier_grant = Caller.of("anna", frozenset({READ, WRITE}), role=Role.OWNER)
    reader = Caller.of("anna", FULL_ACCESS)
    owner = Caller.of("anna", FULL_ACCESS, role=Role.OWNER)
    assert not earlier_grant.may_call(Tier.REGISTERED, CURATE, Role.OWNER)
    assert not reader.may_call(Tier.REGISTERED, CURATE, Role.OWNER)
    assert owner.may_call(Tier.REGISTERED, CURATE, Role.OWNER)

"""`carrel accounts`: shows and changes users' roles, balances, limits and credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_access
from infra.cli.formatting import format_minute, parse_micro_dollars
from shared.accounts.account import format_dollars
from shared.text.counts import format_count

if TYPE_CHECKING:
    from datetime import datetime

    from shared.accounts.account import Account

_NO_LIMIT: Final = "none"
"""The amount that removes a monthly limit."""
_ROLES: Final = ("reader", "editor", "owner")
"""The names of `Role`, repeated here because importing it takes longer than showing the help."""
_DEFAULT_ROLE: Final = "default"
"""The name that removes a user's own role."""


def _parse_user(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    from shared.core.caller import require_user_id

    return require_user_id(value)


def _parse_amount(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    return parse_micro_dollars(value)


def _parse_limit(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    return None if value == _NO_LIMIT else parse_micro_dollars(value)


@click.group()
def accounts() -> None:
    """Show and change users' accounts: role, balance, monthly limit, credentials."""


@accounts.command()
@click.argument("user", callback=_parse_user)
def show(user: str) -> None:
    """Show the account of USER."""
    from shared.core.dates import utc_now

    click.echo(_describe(run_with_access(lambda store: store.accounts.get(user)), utc_now()))


@accounts.command()
@click.argument("user", callback=_parse_user)
@click.argument("role", type=click.Choice((*_ROLES, _DEFAULT_ROLE)))
def role(user: str, role: str) -> None:
    """Give USER a role, which applies from the next call on.

    A reader reads the knowledge base, an editor also saves notes and changes their own, and an
    owner changes and forgets everything. With `default`, the setting DEFAULT_ROLE decides.
    """
    from shared.core.caller import Role

    chosen = None if role == _DEFAULT_ROLE else Role(role)
    run_with_access(lambda store: store.accounts.set_role(user, chosen))
    if chosen is None:
        click.echo(f"{user} has the role that DEFAULT_ROLE sets.")
    else:
        click.echo(f"{user} has the role {chosen} from the next call on.")


# Without this setting, click takes -5 for an option.
@accounts.command(context_settings={"ignore_unknown_options": True})
@click.argument("user", callback=_parse_user)
@click.argument("amount", callback=_parse_amount)
def credit(user: str, amount: int) -> None:
    """Add AMOUNT dollars, such as 5 or 0.50, to USER's balance. A negative AMOUNT reduces it."""
    from shared.core.dates import utc_now

    account = run_with_access(lambda store: store.accounts.credit(user, amount, utc_now()))
    click.echo(f"The balance of {user} is now {format_dollars(account.balance)}.")


@accounts.command()
@click.argument("user", callback=_parse_user)
@click.argument("amount", callback=_parse_limit)
def limit(user: str, amount: int | None) -> None:
    """Limit USER to AMOUNT dollars per calendar month. An AMOUNT of `none` removes the limit."""
    run_with_access(lambda store: store.accounts.set_budget(user, amount))
    if amount is None:
        click.echo(f"{user} has no monthly limit.")
    else:
        click.echo(f"{user} may spend up to {format_dollars(amount)} per month.")


@accounts.command()
@click.argument("user", callback=_parse_user)
def revoke(user: str) -> None:
    """Revoke all keys and sign-ins of USER immediately. New ones can be created afterwards."""
    from shared.accounts.repositories.revocation import revoke_user

    keys, sign_ins = run_with_access(lambda store: revoke_user(store, user))
    if not keys and not sign_ins:
        click.echo(f"{user} had no active key or sign-in. Is the name right?")
    else:
        click.echo(
            f"Revoked for {user}: {format_count(keys, 'key')}, {format_count(sign_ins, 'sign-in')}."
        )


def _describe(account: Account, now: datetime) -> str:
    reserved = account.balance - account.compute_available(now)
    # An account without calls in this month still has the sum of an earlier one.
    spent = account.spent if account.month == f"{now:%Y-%m}" else 0
    budget, revoked_before = account.monthly_budget, account.revoked_before
    lines = {
        "user": account.user_id,
        "role": account.role or "default",
        "balance": (
            f"{format_dollars(account.balance)}, {format_dollars(reserved)} of it is on hold"
        ),
        "spent": f"{format_dollars(spent)} in {now:%Y-%m}",
        "monthly limit": _NO_LIMIT if budget is None else format_dollars(budget),
        "revoked": (
            f"all credentials created before {format_minute(revoked_before)} UTC"
            if revoked_before
            else "none"
        ),
    }
    return "\n".join(f"{name:<14} {value}" for name, value in lines.items())

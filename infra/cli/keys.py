"""`carrel keys`: access keys, for scripts, local clients, and signing in without Google."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from infra.cli.access_database import change, look
from infra.cli.formatting import counted, minute, table
from infra.cloud.place import share_secret

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.accounts.access_key import AccessKey
    from shared.accounts.account import Account
    from shared.accounts.repositories.access_store import AccessStore

_SCOPES: Final = ("read", "write")
_LONGEST_NAME: Final = 100
_HOW: Final = """
This is the only time that it is shown. It goes wherever a client asks for a credential:
  in a header         Authorization: Bearer KEY        or  X-API-Key: KEY
  within one task     Authorization: Bearer TASK@KEY
  on the sign-in page that Claude opens, paste it there
  for `carrel call`   in the variable CARREL_KEY
It never goes into a URL. To end it: carrel keys revoke {key_id}"""


@click.group()
def keys() -> None:
    """Access keys: make, list and revoke them."""


@keys.command()
@click.option("--user", required=True, help="On whose behalf it acts: an e-mail address or a name.")
@click.option("--name", required=True, help="What you call it, such as where it is used.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    default=_SCOPES,
    show_default=True,
    help="What it allows; may be given twice.",
)
@click.option(
    "--expires-in-days", "days", type=click.IntRange(1, 3_650), help="By default, it never does."
)
def create(user: str, name: str, scopes: Sequence[str], days: int | None) -> None:
    """Make a key and print it, once."""
    from shared.accounts.access_key import new_key
    from shared.accounts.keyring import Keyring
    from shared.core.caller import Scope, with_implied_scopes
    from shared.core.settings import Settings

    share_secret()
    keyring = Keyring(Settings().access_secrets)
    allowed = with_implied_scopes(frozenset(Scope[each.upper()] for each in scopes))
    called = _checked_name(name)

    async def make(store: AccessStore) -> tuple[str, AccessKey]:
        now = await store.accounts.now()
        ends = now + timedelta(days=days) if days else None
        text, key = new_key(keyring, user, called, allowed, created_at=now, expires_at=ends)
        await store.keys.add(key)
        return text, key

    text, key = change(make)
    # The key alone goes to standard output, so that a script can take it from there.
    click.echo(f"A key for {key.user_id}, named {key.name!r}:\n", err=True)
    click.echo(text)
    click.echo(_HOW.format(key_id=key.key_id), err=True)


@keys.command("list")
@click.option("--user", help="Only this user's.")
def list_keys(user: str | None) -> None:
    """List keys, the newest first; not their texts, which are kept nowhere."""
    from shared.core.dates import utc_now

    keys_and_accounts = look(lambda store: _with_accounts(store, user))
    if not keys_and_accounts:
        click.echo("There is no key. `carrel keys create` makes one.")
        return
    now = utc_now()
    head = ("ID", "NAME", "USER", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")
    click.echo(table(head, [_row(key, account, now) for key, account in keys_and_accounts]))


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """End the key KEY_ID at once."""
    from shared.accounts.access_key import PREFIX
    from shared.accounts.repositories.revoking import revoke_key

    # Whoever pastes the whole key means its id; the rest must not be quoted anywhere.
    [key_id, *_] = key_id.removeprefix(PREFIX).split("_")
    if not re.fullmatch("[0-9a-f]{12}", key_id):
        raise click.ClickException("A key's id has 12 characters: `carrel keys list` shows it.")
    key, sign_ins = change(lambda store: revoke_key(store, key_id))
    ended = f" {counted(sign_ins, 'sign-in')} ended with it." if sign_ins else ""
    click.echo(
        f"The key {key_id} of {key.user_id}, named {key.name!r}, opens nothing any more.{ended}"
    )


def _checked_name(name: str) -> str:
    if not name.isprintable() or not 0 < len(name.strip()) <= _LONGEST_NAME:
        raise click.ClickException(f"A name has 1 to {_LONGEST_NAME} printable characters.")
    return name.strip()


async def _with_accounts(store: AccessStore, user: str | None) -> list[tuple[AccessKey, Account]]:
    all_keys = await store.keys.all(user)
    users = sorted({key.user_id for key in all_keys})
    accounts = await asyncio.gather(*(store.accounts.get(name) for name in users))
    by_user = dict(zip(users, accounts, strict=True))
    return [(key, by_user[key.user_id]) for key in all_keys]


def _row(key: AccessKey, account: Account, now: datetime) -> Sequence[str]:
    return (
        key.key_id,
        key.name,
        key.user_id,
        " ".join(sorted(scope.name.lower() for scope in key.scopes)),
        minute(key.created_at),
        minute(key.expires_at),
        minute(key.used_at),
        _state(key, account, now),
    )


def _state(key: AccessKey, account: Account, now: datetime) -> str:
    if key.revoked_at or not account.accepts(key.created_at):
        return "revoked"
    return "active" if key.holds(now) else "expired"

"""`carrel keys`: manages access keys, for scripts, for clients, and for sign-in without Google."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_access
from infra.cli.formatting import format_minute, format_table
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.accounts.access_key import AccessKey
    from shared.accounts.account import Account
    from shared.accounts.repositories.access_store import AccessStore

_FULL_ACCESS: Final = ("read", "write", "curate")
"""The names of `Scope` in ascending order. Importing them would make `--help` slow."""
_MAX_NAME_LENGTH: Final = 100
"""A key's name has at most this many characters."""
_USAGE: Final = """
Copy the key now: it is not shown again. Where it goes:
  a program's header      Authorization: Bearer KEY        or  X-API-Key: KEY
  for one workspace       Authorization: Bearer TASK_ID@KEY
  the sign-in page        paste it when Claude opens the page
  {call:<22}  the environment variable CARREL_KEY
Never put it into a URL. To revoke it: {revoke}"""


@click.group()
def keys() -> None:
    """Create, list and revoke access keys."""


@keys.command()
@click.option("--user", required=True, help="The key's user: an e-mail address or a name.")
@click.option("--name", required=True, help="The key's name, such as where it is used.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([*_FULL_ACCESS, "save"]),
    multiple=True,
    default=_FULL_ACCESS,
    show_default=True,
    help="What the key allows. The option can be repeated. A scope includes those before it, but"
    " save allows saving from a browser, and nothing else.",
)
@click.option(
    "--expires-in-days",
    "days",
    type=click.IntRange(1, 3_650),
    help="Days until the key expires. By default, it never expires.",
)
def create(user: str, name: str, scopes: Sequence[str], days: int | None) -> None:
    """Create a key and print it. It cannot be shown again."""
    from infra.cloud.environment import set_access_secrets
    from shared.accounts.access_key import new_key
    from shared.accounts.keyring import Keyring
    from shared.core.caller import Scope, add_implied_scopes
    from shared.core.settings import Settings

    set_access_secrets()
    keyring = Keyring(Settings().access_secrets)
    allowed = add_implied_scopes(frozenset(Scope[scope.upper()] for scope in scopes))
    valid_name = _validate_name(name)

    async def add_key(store: AccessStore) -> tuple[str, AccessKey]:
        now = await store.accounts.get_server_time()
        expires_at = now + timedelta(days=days) if days else None
        secret_key, record = new_key(
            keyring, user, valid_name, allowed, created_at=now, expires_at=expires_at
        )
        await store.keys.add(record)
        return secret_key, record

    secret_key, record = run_with_access(add_key)
    # Only the key goes to standard output, so that a script can read it from there.
    click.echo(f"A key for {record.user_id}, named {record.name!r}:\n", err=True)
    click.echo(secret_key)
    click.echo(
        _USAGE.format(call=carrel("call"), revoke=carrel(f"keys revoke {record.key_id}")), err=True
    )


@keys.command("list")
@click.option("--user", help="List only this user's keys.")
def list_keys(user: str | None) -> None:
    """List keys, newest first. Their secret parts are not stored and cannot be shown."""
    from shared.core.dates import utc_now

    keys_and_accounts = run_with_access(lambda store: _load_keys_and_accounts(store, user))
    if not keys_and_accounts:
        whose = f" of {user}" if user else ""
        click.echo(f"There are no keys{whose}. To create one: {carrel('keys create')}")
        return
    now = utc_now()
    header = ("ID", "NAME", "USER", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE")
    click.echo(
        format_table(header, [_format_row(key, account, now) for key, account in keys_and_accounts])
    )


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke the key KEY_ID immediately."""
    from shared.accounts.access_key import KEY_PREFIX
    from shared.accounts.repositories.revocation import revoke_key

    # A person may paste the whole key. Its secret part must not appear in any message.
    [key_id, *_] = key_id.removeprefix(KEY_PREFIX).split("_")
    if not re.fullmatch("[0-9a-f]{12}", key_id):
        message = f"A key's id has 12 hexadecimal digits. To see ids: {carrel('keys list')}"
        raise click.ClickException(message)
    key, sign_ins = run_with_access(lambda store: revoke_key(store, key_id))
    suffix = f" {format_count(sign_ins, 'sign-in')} ended with it." if sign_ins else ""
    click.echo(f"Revoked the key {key_id} of {key.user_id}, named {key.name!r}.{suffix}")


def _validate_name(name: str) -> str:
    if not name.isprintable() or not 0 < len(name.strip()) <= _MAX_NAME_LENGTH:
        raise click.ClickException(f"A name has 1 to {_MAX_NAME_LENGTH} printable characters.")
    return name.strip()


async def _load_keys_and_accounts(
    store: AccessStore, user: str | None
) -> list[tuple[AccessKey, Account]]:
    """Load keys with the accounts of their users, since an account can revoke all its keys."""
    all_keys = await store.keys.list_keys(user)
    users = sorted({key.user_id for key in all_keys})
    accounts = await asyncio.gather(*(store.accounts.get(name) for name in users))
    by_user = dict(zip(users, accounts, strict=True))
    return [(key, by_user[key.user_id]) for key in all_keys]


def _format_row(key: AccessKey, account: Account, now: datetime) -> Sequence[str]:
    return (
        key.key_id,
        key.name,
        key.user_id,
        " ".join(sorted(scope.name.lower() for scope in key.scopes)),
        format_minute(key.created_at),
        format_minute(key.expires_at),
        format_minute(key.used_at),
        _describe_state(key, account, now),
    )


def _describe_state(key: AccessKey, account: Account, now: datetime) -> str:
    # An account can revoke all keys that were created before a moment.
    if key.revoked_at or not account.accepts(key.created_at):
        return "revoked"
    return "active" if key.is_valid(now) else "expired"

"""The smoke test's access key, a read-only key of the user `smoke`.

The smoke test calls a new release as a client would (`infra.cloud.smoke`). The key is stored in a
secret in Secret Manager, which Terraform creates and builds may read. Firestore's client is
imported late, so that commands that do not need it start fast.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from infra.cloud.secret_values import ACCESS_SECRETS
from shared.accounts.access_key import matches_key, new_key, parse_key_id
from shared.accounts.keyring import Keyring
from shared.core.caller import Scope
from shared.core.settings import ACCESS_DATABASE

if TYPE_CHECKING:
    from infra.cloud.secret_values import SecretValues
    from shared.accounts.repositories.access_store import AccessStore

SECRET_NAME: Final = "carrel-smoke-key"  # noqa: S105 - a name, not a secret
"""The name of the secret in Secret Manager that contains the key."""
USER: Final = "smoke"
"""The user on whose behalf the key acts."""


def obtain_smoke_key(project: str, secrets: SecretValues) -> str:
    """Return the stored key, which is created if missing.

    It is replaced if it was revoked or if its signing secret is no longer in use.
    """
    return asyncio.run(_load_or_create(project, secrets))


async def _load_or_create(project: str, secrets: SecretValues) -> str:
    from shared.accounts.repositories.access_store import AccessStore
    from shared.firestore.connection import Connection

    values = json.loads(secrets.read(ACCESS_SECRETS))
    keyring = Keyring([SecretStr(value) for value in values])
    stored = secrets.read(SECRET_NAME) if secrets.has(SECRET_NAME) else ""
    connection = Connection(project, ACCESS_DATABASE)
    try:
        store = AccessStore(connection)
        if stored and await _is_valid(store, keyring, stored):
            return stored
        text = await _create_key(store, keyring)
    finally:
        await connection.aclose()
    secrets.add(SECRET_NAME, text)
    return text


async def _is_valid(store: AccessStore, keyring: Keyring, text: str) -> bool:
    """Return whether this deployment created a key and has not revoked it. It never expires."""
    key_id = parse_key_id(keyring, text)
    key = await store.keys.get(key_id) if key_id else None
    return key is not None and matches_key(keyring, text, key) and key.revoked_at is None


async def _create_key(store: AccessStore, keyring: Keyring) -> str:
    now = await store.accounts.get_server_time()
    scopes = frozenset({Scope.READ})
    text, key = new_key(keyring, USER, "carrel deploy", scopes, created_at=now)
    await store.keys.add(key)
    return text

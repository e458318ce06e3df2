"""The key of the smoke test: it may read, belongs to the user `smoke`, and is kept as a secret.

Terraform makes that secret, and lets builds read it.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from infra.cloud.secret_values import ACCESS_SECRETS
from shared.accounts.access_key import is_text_of, key_id_of, new_key
from shared.accounts.keyring import Keyring
from shared.core.caller import Scope

if TYPE_CHECKING:
    from infra.cloud.cloud import Cloud
    from shared.accounts.repositories.access_store import AccessStore

SECRET: Final = "carrel-smoke-key"  # noqa: S105 - its name, not its value
USER: Final = "smoke"
ACCESS_DATABASE: Final = "access"


def smoke_key(cloud: Cloud) -> str:
    """The key: the environment's, else the one that is kept, else a new one, which is kept then.

    One that was revoked, or that ended with the secret it was signed with, is replaced.
    """
    return cloud.key or asyncio.run(_kept_or_new(cloud))


async def _kept_or_new(cloud: Cloud) -> str:
    from shared.accounts.repositories.access_store import AccessStore
    from shared.firestore.database import Connection

    values = json.loads(cloud.secrets.read(ACCESS_SECRETS))
    keyring = Keyring([SecretStr(value) for value in values])
    kept = cloud.secrets.read(SECRET) if cloud.secrets.has(SECRET) else ""
    connection = Connection(cloud.deployment.project, ACCESS_DATABASE)
    try:
        store = AccessStore(connection)
        if kept and await _holds(store, keyring, kept):
            return kept
        text = await _made(store, keyring)
    finally:
        await connection.aclose()
    cloud.secrets.add(SECRET, text)
    return text


async def _holds(store: AccessStore, keyring: Keyring, text: str) -> bool:
    key_id = key_id_of(keyring, text)
    key = await store.keys.get(key_id) if key_id else None
    return key is not None and is_text_of(keyring, text, key) and key.revoked_at is None


async def _made(store: AccessStore, keyring: Keyring) -> str:
    now = await store.accounts.now()
    scopes = frozenset({Scope.READ})
    text, key = new_key(keyring, USER, "carrel deploy", scopes, created_at=now)
    await store.keys.add(key)
    return text

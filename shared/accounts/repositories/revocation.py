"""Revokes a key with its sign-ins, or all keys and sign-ins of a user.

A sign-in is an OAuth grant (`shared.accounts.grant`). The account stores a time before which no
credential is valid. Nevertheless, each grant is also ended by its id, because an instance with a
wrong clock may have issued tokens that seem newer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shared.accounts.access_key import AccessKey
    from shared.accounts.grant import Grant
    from shared.accounts.repositories.access_store import AccessStore

_MAX_CONCURRENT: Final = 10
"""At most this many grants are ended at the same time. All of them change the user's account, so
more would only conflict with each other."""


async def revoke_key(store: AccessStore, key_id: str) -> tuple[AccessKey, int]:
    """Revoke a key and end its sign-ins. Return the key and the number of ended sign-ins.

    Raises:
        NotFound: The key does not exist.
    """
    now = await store.accounts.get_server_time()
    key = await store.keys.revoke(key_id, now)
    grants = await store.grants.find_active("proof.key_id", key_id)
    await _end_grants(store, grants, now)
    return key, len(grants)


async def revoke_user(store: AccessStore, user_id: str) -> tuple[int, int]:
    """Revoke all keys and end all sign-ins of a user. Return how many keys and sign-ins.

    The account stores the time first, so that a credential created before it is not valid even if
    it is not found here.
    """
    now = await store.accounts.get_server_time()
    await store.accounts.revoke(user_id, now)
    keys = [key for key in await store.keys.list_keys(user_id) if key.revoked_at is None]
    grants = await store.grants.find_active("user_id", user_id)
    for key in keys:
        await store.keys.revoke(key.key_id, now)
    await _end_grants(store, grants, now)
    return len(keys), len(grants)


async def _end_grants(store: AccessStore, grants: Iterable[Grant], now: datetime) -> None:
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def end(grant: Grant) -> None:
        async with semaphore:
            await store.grants.change(grant.grant_id, lambda current: current.end(now))

    await asyncio.gather(*map(end, grants))

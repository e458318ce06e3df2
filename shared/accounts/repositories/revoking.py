"""Ending what somebody may do, by name and not by time: whose clock would tell the truth?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shared.accounts.access_key import AccessKey
    from shared.accounts.grant import Grant
    from shared.accounts.repositories.access_store import AccessStore

_AT_ONCE: Final = 10


async def revoke_key(store: AccessStore, key_id: str) -> tuple[AccessKey, int]:
    """End a key, and every sign-in that it proved; return the key and how many those were.

    Raises:
        NotFound: There is no such key.
    """
    now = await store.accounts.now()
    key = await store.keys.revoke(key_id, now)
    grants = await store.grants.holding("proof.key_id", key_id)
    await _end(store, grants, now)
    return key, len(grants)


async def revoke_user(store: AccessStore, user_id: str) -> tuple[int, int]:
    """End all of a user's keys and sign-ins; return how many of each.

    Their account remembers the moment, which also ends what is being made while this runs.
    """
    now = await store.accounts.now()
    await store.accounts.revoke(user_id, now)
    keys = [key for key in await store.keys.all(user_id) if key.revoked_at is None]
    grants = await store.grants.holding("user_id", user_id)
    for key in keys:
        await store.keys.revoke(key.key_id, now)
    await _end(store, grants, now)
    return len(keys), len(grants)


async def _end(store: AccessStore, grants: Iterable[Grant], now: datetime) -> None:
    room = asyncio.Semaphore(_AT_ONCE)

    async def end(grant: Grant) -> None:
        async with room:
            await store.grants.change(grant.grant_id, lambda each: each.ended(now))

    await asyncio.gather(*map(end, grants))

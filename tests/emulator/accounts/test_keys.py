"""Access keys are listed from the newest to the oldest, and can be revoked."""

import asyncio
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from google.api_core.exceptions import Aborted

from shared.accounts.access_key import AccessKey
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.keys import MAX_LISTED_KEYS
from shared.core.caller import FULL_ACCESS
from shared.core.errors import NotFound
from shared.firestore.connection import Connection
from tests.support.clock import NOON
from tests.support.commit_hooks import Response, Send, intercept_commits

KEY = AccessKey(
    key_id="0" * 12,
    user_id="anna",
    name="laptop",
    scopes=FULL_ACCESS,
    text_hash="h",
    created_at=NOON,
)


def make_key(number: int, user: str = "anna") -> AccessKey:
    """Make a key created `number` minutes after noon. Later keys have smaller ids."""
    moment = NOON + timedelta(minutes=number)
    return replace(KEY, key_id=f"{10_000 - number:012}", user_id=user, created_at=moment)


async def add_keys(access: Connection, keys: list[AccessKey]) -> None:
    """Store at most 500 keys with one commit."""
    batch = access.client.batch()
    for key in keys:
        fields = asdict(key) | {"scopes": sorted(key.scopes)}
        batch.set(access.client.document(f"keys/{key.key_id}"), fields)
    await batch.commit()


async def test_a_long_list_of_keys_omits_the_oldest(access: Connection, store: AccessStore) -> None:
    """The keys are sorted by the time of their creation, not by id."""
    keys = [make_key(number) for number in range(MAX_LISTED_KEYS)]
    newest = replace(make_key(MAX_LISTED_KEYS), key_id="f" * 12)
    await asyncio.gather(
        *(add_keys(access, keys[start : start + 250]) for start in range(0, len(keys), 250))
    )
    await store.keys.add(newest)

    listed_keys = await store.keys.list_keys()
    assert len(listed_keys) == MAX_LISTED_KEYS
    assert listed_keys[0] == newest
    assert listed_keys[-1] == keys[1]


async def test_keys_of_a_user_are_listed_newest_first(store: AccessStore) -> None:
    for key in (make_key(1), make_key(3), make_key(2), make_key(4, user="ben")):
        await store.keys.add(key)
    assert await store.keys.list_keys("anna") == [make_key(3), make_key(2), make_key(1)]


async def test_a_key_is_revoked_despite_a_concurrent_change(
    access: Connection, store: AccessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match="There is no key"):
        await store.keys.revoke(KEY.key_id, NOON)
    await store.keys.add(KEY)

    async def abort_first(number: int, send: Send) -> Response:
        if number == 1:
            raise Aborted("too much contention")
        return await send()

    intercept_commits(access, monkeypatch, abort_first)
    await store.keys.revoke(KEY.key_id, NOON)
    assert await store.keys.get(KEY.key_id) == replace(KEY, revoked_at=NOON)

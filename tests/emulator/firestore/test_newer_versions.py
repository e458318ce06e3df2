"""Documents that a newer version of Carrel has written are still read after a rollback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.firestore.connection import Connection
from shared.firestore.documents import Reference
from shared.firestore.writes import Set


@pytest.fixture
async def store(project: str) -> AsyncIterator[AccessStore]:
    """The store of accounts and keys."""
    connection = Connection(project, "access")
    yield AccessStore(connection)
    await connection.aclose()


async def add_field(store: AccessStore, collection: str, document_id: str) -> None:
    """Add a field that this version does not know to a document."""
    reference = Reference(collection, document_id)
    await store.database.commit([Set(reference, {"new": 1}, merge=True)])


async def test_an_account_with_an_unknown_field_is_read(store: AccessStore) -> None:
    await store.accounts.credit("anna", 5, datetime.now(UTC))
    await add_field(store, "accounts", "anna")
    assert (await store.accounts.get("anna")).balance == 5


async def test_a_key_with_an_unknown_field_is_read(store: AccessStore) -> None:
    keyring = Keyring([SecretStr("s" * 32)])
    _, key = new_key(keyring, "anna", "x", FULL_ACCESS, created_at=datetime.now(UTC))
    await store.keys.add(key)
    await add_field(store, "keys", key.key_id)
    assert await store.keys.get(key.key_id) == key

"""Documents that a newer version of Carrel has written are still read after a rollback."""

from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.firestore.connection import Connection
from shared.firestore.documents import Reference
from shared.firestore.writes import Set
from tests.support.clock import NOON


async def test_documents_with_an_unknown_field_are_read(project: str) -> None:
    connection = Connection(project, "access")
    store = AccessStore(connection)
    await store.accounts.credit("anna", 5, NOON)
    keyring = Keyring([SecretStr("s" * 32)])
    _, key = new_key(keyring, "anna", "x", FULL_ACCESS, created_at=NOON)
    await store.keys.add(key)
    for reference in (Reference("accounts", "anna"), Reference("keys", key.key_id)):
        await store.database.commit([Set(reference, {"new": 1}, merge=True)])
    assert (await store.accounts.get("anna")).balance == 5
    assert await store.keys.get(key.key_id) == key
    await connection.aclose()

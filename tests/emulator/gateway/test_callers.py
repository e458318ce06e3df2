"""The gateway identifies a caller by a credential: an access key, or a token of a sign-in.

A caller has a user, a role of that user, and the scopes of the credential.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from google.api_core.exceptions import Aborted, ServiceUnavailable
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.callers import Credential
from shared.accounts.access_key import AccessKey, new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Caller, Role, Scope, Tier
from shared.core.errors import InvalidInput, Unauthorized
from shared.core.settings import Settings
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import Response, Send, intercept_commits

ADDRESS = "1.2.3.4"


@pytest.fixture
def store(access: Access) -> AccessStore:
    """The database of accounts and keys."""
    return AccessStore(access.connection)


async def create_key(
    access: Access,
    user: str,
    *,
    scopes: frozenset[Scope] = FULL_ACCESS,
    expires_at: datetime | None = None,
) -> tuple[str, AccessKey]:
    """Store a key, and return its text and the stored part."""
    text, key = new_key(
        access.keyring, user, "laptop", scopes, created_at=NOON, expires_at=expires_at
    )
    await AccessStore(access.connection).keys.add(key)
    return text, key


async def identify_caller(access: Access, text: str, task: str | None = None) -> Caller:
    """Return the caller with this credential, who may name a task."""
    visitor = await access.callers.identify(Credential(text, task), ADDRESS)
    assert visitor.rate_limit_key == f"user:{visitor.caller.user_id}"
    return visitor.caller


async def test_a_key_decides_the_user_and_the_scopes(access: Access) -> None:
    text, _ = await create_key(access, "anna", scopes=frozenset({Scope.READ}))
    expected = Caller.of("anna", frozenset({Scope.READ}), client="laptop")
    assert await identify_caller(access, text) == expected
    caller = await identify_caller(access, text, "ben@example.com")
    assert caller.user_id == "anna"
    assert (caller.task or "").startswith("ben-example-")


async def test_an_unknown_key_is_rejected_without_a_read(
    access: Access, settings: Settings
) -> None:
    """A key of another deployment is unknown, too."""
    other_secrets = [SecretStr("t" * 32)]
    other_access = Access(settings.model_copy(update={"access_secrets": other_secrets}))
    text, _ = new_key(other_access.keyring, "anna", "laptop", FULL_ACCESS, created_at=NOON)
    for unknown in (text, "carrel_" + "0" * 12 + "_" + "x" * 51):
        with pytest.raises(Unauthorized, match="is not valid"):
            await access.callers.verify_key(unknown)
    # The database client is made when something is read.
    assert "client" not in access.connection.__dict__


async def test_a_key_is_not_valid_once_revoked_expired_or_changed(
    access: Access, store: AccessStore, clock: SettableClock
) -> None:
    expiring, _ = await create_key(access, "anna", expires_at=NOON + timedelta(days=1))
    revoked, revoked_key = await create_key(access, "anna")
    changed, changed_key = await create_key(access, "anna")
    for text in (expiring, revoked, changed):
        assert await identify_caller(access, text)

    clock.now += timedelta(days=1)
    with pytest.raises(Unauthorized, match="expired"):
        await identify_caller(access, expiring)
    await store.keys.revoke(revoked_key.key_id, clock.now)
    with pytest.raises(Unauthorized, match="revoked"):
        await identify_caller(access, revoked)
    change = {"text_hash": access.keyring.sign("access key", revoked)}
    await store.database.commit([Update(Reference("keys", changed_key.key_id), change)])
    with pytest.raises(Unauthorized):
        await identify_caller(access, changed)


async def test_revoking_a_user_ends_their_keys_and_tokens_at_once(
    access: Access, store: AccessStore, clock: SettableClock
) -> None:
    text, _ = await create_key(access, "anna")
    token = access.tokens.issue(user_id="anna", client_id="c", scopes=FULL_ACCESS, grant_id="g")
    text_of_ben, _ = await create_key(access, "ben")
    for credential in (text, token, text_of_ben):
        assert await identify_caller(access, credential)

    clock.now += timedelta(minutes=1)
    await store.accounts.revoke("anna", clock.now)
    for credential in (text, token):
        with pytest.raises(Unauthorized):
            await identify_caller(access, credential)
    assert await identify_caller(access, text_of_ben)

    await store.accounts.revoke("cy", NOON - timedelta(seconds=1))
    text_of_cy, _ = await create_key(access, "cy")  # made after the revocation
    assert await identify_caller(access, text_of_cy)


async def test_a_token_ends_with_its_sign_in(access: Access, store: AccessStore) -> None:
    first_token, second_token = (
        access.tokens.issue(user_id="anna", client_id="c", scopes=FULL_ACCESS, grant_id=grant)
        for grant in ("g-1", "g-2")
    )
    await store.database.commit([await store.accounts.build_end_grant_write("anna", "g-1")])
    with pytest.raises(Unauthorized, match="has ended"):
        await identify_caller(access, first_token)
    assert await identify_caller(access, second_token)


async def test_a_keys_last_use_is_written_once_an_hour(
    access: Access, store: AccessStore, clock: SettableClock
) -> None:
    text, key = await create_key(access, "anna")
    for minutes, written_minutes in ((0, 0), (30, 0), (90, 90)):
        clock.now = NOON + timedelta(minutes=minutes)
        await identify_caller(access, text)
        stored_key = await store.keys.get(key.key_id)
        assert stored_key
        assert stored_key.used_at == NOON + timedelta(minutes=written_minutes)


async def test_concurrent_calls_with_a_key_write_its_use_once(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, _ = await create_key(access, "anna")
    commits: list[int] = []

    async def record_commit(number: int, send: Send) -> Response:
        commits.append(number)
        return await send()

    intercept_commits(access.connection, monkeypatch, record_commit)
    await asyncio.gather(*(identify_caller(access, text) for _ in range(30)))
    assert len(commits) == 1


@pytest.mark.parametrize("error", [Aborted, ServiceUnavailable, RuntimeError])
async def test_a_key_is_valid_if_its_use_cannot_be_stored(
    access: Access,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Callable[[str], Exception],
) -> None:
    text, _ = await create_key(access, "anna")

    async def fail(_number: int, _send: Send) -> Response:
        raise error("no")

    intercept_commits(access.connection, monkeypatch, fail)
    for _ in range(2):
        assert (await identify_caller(access, text)).user_id == "anna"
    assert capfd.readouterr().err.count("key_use_not_noted") == 1


async def test_a_role_applies_to_keys_and_tokens_from_the_next_call(
    access: Access, store: AccessStore, settings: Settings
) -> None:
    key, _ = await create_key(access, "anna")
    token = access.tokens.issue(user_id="anna", client_id="c", scopes=FULL_ACCESS, grant_id="g")
    for role in (Role.OWNER, Role.EDITOR, None):
        await store.accounts.set_role("anna", role)
        for credential in (key, token):
            caller = await identify_caller(access, credential)
            assert caller.role is (role or Role.READER)

    editors = settings.model_copy(update={"default_role": "editor"})
    services = Access(editors, access.clock)
    assert (await identify_caller(services, key)).role is Role.EDITOR
    await services.aclose()


async def test_a_caller_without_a_credential_is_by_settings() -> None:
    """Nobody, an anonymous caller limited by address, or the local user without limits."""
    secrets = [SecretStr("s" * 32)]
    with pytest.raises(Unauthorized, match="Sign in first"):
        await Access(Settings(access_secrets=secrets)).callers.identify(None, ADDRESS)

    public = Access(Settings(access_secrets=secrets, public_access=True))
    visitor = await public.callers.identify(None, ADDRESS)
    assert (visitor.caller, visitor.rate_limit_key) == (Caller(), f"address:{ADDRESS}")
    assert not visitor.caller.may_call(Tier.REGISTERED, Scope.READ)
    assert not visitor.caller.may_call(Tier.PUBLIC, Scope.WRITE)

    local = Access(Settings(access_secrets=secrets, local_user="local"))
    visitor = await local.callers.identify(None, ADDRESS)
    assert visitor.caller == Caller.of("local", role=Role.OWNER)
    assert visitor.rate_limit_key is None
    with pytest.raises(Unauthorized):
        await local.callers.identify(Credential("nonsense"), ADDRESS)
    with pytest.raises(InvalidInput, match="LOCAL_USER opens everything"):
        Settings(local_user="local", public_url="https://carrel.example")

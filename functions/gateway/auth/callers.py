"""Verification of credentials: from the headers of a request to its caller."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from functions.gateway.auth.visitor import Visitor
from shared.accounts.access_key import KEY_PREFIX, matches_key, parse_key_id
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller, Role, Scope
from shared.core.errors import Forbidden, Unauthorized
from shared.core.ids import safe_id
from shared.core.installation import carrel
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.datastructures import Headers

    from functions.gateway.auth.access_tokens import AccessTokens
    from shared.accounts.access_key import AccessKey
    from shared.accounts.account import Account
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.firestore.connection import Connection

USE_INTERVAL: Final = timedelta(hours=1)
"""The minimum time between two writes of when a key was last used."""
_MAX_CACHED_OWNERS: Final = 1_000
"""The maximum number of keys whose owners an instance caches."""
_TOKEN_FORMAT: Final = re.compile(r"[\x21-\x7e]{1,4096}")
"""Up to 4,096 visible ASCII characters."""
_USAGE_HINT: Final = "Send `Authorization: Bearer <token or key>`, or `X-API-Key: <key>`."


def _explain_invalid_key() -> str:
    return (
        "This key is not valid. Check that you copied all of it. If you did, it is unknown, expired"
        f" or revoked: create another one with {carrel('keys create')}."
    )


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or an access token, not verified yet.

    Attributes:
        identity: The text before the `@` in front of a key, which names a task, not a person.
    """

    text: str
    identity: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether this is an access key, not a token."""
        return self.text.startswith(KEY_PREFIX)


def read_credential(headers: Headers) -> Credential | None:
    """Return the credential of a request, or None if it has none.

    Raises:
        Unauthorized: The request has several credentials, or one in an invalid format.
    """
    authorizations, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not authorizations and not keys:
        return None
    if len(authorizations) + len(keys) > 1:
        raise Unauthorized(f"This request has more than one credential. {_USAGE_HINT}")
    text = keys[0].strip() if keys else _parse_bearer(authorizations[0])
    identity, separator, key = text.rpartition("@")
    credential = (
        Credential(key, identity) if separator and key.startswith(KEY_PREFIX) else Credential(text)
    )
    if (
        not _TOKEN_FORMAT.fullmatch(text)
        or (keys and not credential.is_key)
        or (separator and not identity)
    ):
        raise Unauthorized(f"This credential is not valid. {_USAGE_HINT}")
    return credential


class Callers:
    """Verifies credentials.

    A token costs one round trip. A key costs two, or one if its owner is cached, and about once an
    hour also a write, which stores when the key was last used.
    """

    def __init__(
        self,
        settings: Settings,
        keyring: Keyring,
        tokens: AccessTokens,
        database: Connection,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._keyring = keyring
        self._tokens = tokens
        self._database = database
        self._clock = clock
        self._owners: dict[str, str] = {}
        self._uses: dict[str, datetime] = {}

    async def identify(self, credential: Credential | None, address: str) -> Visitor:
        """Return the visitor with a credential, or the anonymous one at a network address.

        Raises:
            Unauthorized: The credential is not valid, or is missing where one is required.
            Unavailable: The database does not answer.
        """
        if credential is None:
            return self._identify_anonymous(address)
        caller = await (self._identify_by_key if credential.is_key else self._identify_by_token)(
            credential
        )
        embeds = self._settings.embeds_with_callers_keys and credential.is_key
        key = SecretStr(credential.text) if embeds else None
        return Visitor(caller, f"user:{caller.user_id}", embedding_key=key)

    def _identify_anonymous(self, address: str) -> Visitor:
        if self._settings.local_user:
            return Visitor(Caller.of(self._settings.local_user, role=Role.OWNER), None)
        if self._settings.public_access:
            return Visitor(Caller(), f"address:{address}")
        raise Unauthorized(
            "Sign in first: add this server's URL to your MCP client, or send an access key in the"
            " header `Authorization: Bearer <key>`. Never put a key in a URL."
        )

    async def _identify_by_token(self, credential: Credential) -> Caller:
        token = self._tokens.verify(credential.text)
        account = await AccessStore(self._database).accounts.get(token.user_id)
        if not account.accepts(token.issued_at, token.grant_id):
            raise Unauthorized("This sign-in has ended. Sign in again.")
        role = self.get_role(account)
        return Caller.of(token.user_id, token.scopes, role=role, client=token.client_name)

    async def _identify_by_key(self, credential: Credential) -> Caller:
        key, account = await self.verify_key(credential.text)
        task = safe_id(credential.identity) if credential.identity else None
        role = self.get_role(account)
        return Caller.of(account.user_id, key.scopes, task, role=role, client=key.name)

    async def identify_saver(self, credential: Credential | None) -> Visitor:
        """Return the visitor with a save-only key, with the scope of the tools that save pages.

        Call no other tool for them.

        Raises:
            Unauthorized: There is no key, or it is not valid.
            Forbidden: The key is not save-only.
            Unavailable: The database does not answer.
        """
        if credential is None or not credential.is_key:
            raise Unauthorized("Enter your key in the options of the extension.")
        key, account = await self._verify_any_key(credential.text)
        if key.scopes != {Scope.SAVE}:
            raise Forbidden("Give the extension a key that may only save pages.")
        role = self.get_role(account)
        caller = Caller.of(account.user_id, frozenset({Scope.WRITE}), role=role, client=key.name)
        return Visitor(caller, f"user:{caller.user_id}")

    def get_role(self, account: Account) -> Role:
        """Return the role of a user, by default that of the deployment."""
        if account.user_id == self._settings.local_user:
            return Role.OWNER
        return account.role or Role(self._settings.default_role)

    async def verify_key(self, text: str) -> tuple[AccessKey, Account]:
        """Return the key with this text, and its user's account.

        Raises:
            Unauthorized: The key is not valid.
            Forbidden: The key may only save pages.
        """
        key, account = await self._verify_any_key(text)
        if Scope.SAVE in key.scopes:
            raise Forbidden("This key may only save pages from a browser.")
        return key, account

    async def _verify_any_key(self, text: str) -> tuple[AccessKey, Account]:
        key_id = parse_key_id(self._keyring, text)
        if key_id is None:
            raise Unauthorized(_explain_invalid_key())
        key, account = await self._load_key(key_id)
        now = self._clock()
        is_valid = key and matches_key(self._keyring, text, key) and key.is_valid(now)
        if not key or not account or not is_valid or not account.accepts(key.created_at):
            raise Unauthorized(_explain_invalid_key())
        await self._record_use(key, now)
        return key, account

    async def _record_use(self, key: AccessKey, now: datetime) -> None:
        """Store when a key was last used, at most once per interval. A failure is only logged."""
        uses = [moment for moment in (key.used_at, self._uses.get(key.key_id)) if moment]
        if uses and now - max(uses) <= USE_INTERVAL:
            return
        self._uses[key.key_id] = now
        try:
            await AccessStore(self._database).keys.record_use(key.key_id, now)
        except Exception as error:  # noqa: BLE001 - the key is valid in any case
            log.warning("key_use_not_noted", **error_fields(error))

    async def _load_key(self, key_id: str) -> tuple[AccessKey | None, Account | None]:
        """Load a key and its user's account: two round trips, or one if the owner is cached."""
        store = AccessStore(self._database)
        owner = self._owners.get(key_id)
        if owner:
            return await asyncio.gather(store.keys.get(key_id), store.accounts.get(owner))
        key = await store.keys.get(key_id)
        if key is None:
            return None, None
        if len(self._owners) >= _MAX_CACHED_OWNERS:
            self._owners.clear()
            self._uses.clear()
        self._owners[key_id] = key.user_id
        return key, await store.accounts.get(key.user_id)


def _parse_bearer(header: str) -> str:
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"This credential is not valid. {_USAGE_HINT}")
    return text.strip()

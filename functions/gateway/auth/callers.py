"""From what a request shows to prove who sends it, to the caller whom that speaks for."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from functions.gateway.auth.visitor import Visitor
from shared.accounts.access_key import PREFIX, is_text_of, key_id_of
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller
from shared.core.errors import Unauthorized
from shared.core.ids import safe_id
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
    from shared.firestore.database import Connection

USED_EVERY: Final = timedelta(hours=1)
"""How exact a key's last use is known: each time costs a write."""
_MAX_OWNERS: Final = 1_000
"""Keys whose owners an instance remembers."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_HOW: Final = "Send `Authorization: Bearer <token or key>`, or `X-API-Key: <key>`."
_NO_KEY: Final = (
    "This key is not valid. Check that you copied all of it; if you did, it is unknown, expired or"
    " revoked: make another one with carrel keys create."
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or an access token, not verified yet.

    Attributes:
        text: As it was sent.
        identity: What stands before the `@` of a key: it names a task, not a person.
    """

    text: str
    identity: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether it is an access key, and no token."""
        return self.text.startswith(PREFIX)


def credential_in(headers: Headers) -> Credential | None:
    """The credential of a request; None where it has none.

    Raises:
        Unauthorized: There are several, or what there is has no known form.
    """
    authorizations, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not authorizations and not keys:
        return None
    if len(authorizations) + len(keys) > 1:
        raise Unauthorized(f"There is more than one credential. {_HOW}")
    text = keys[0].strip() if keys else _bearer(authorizations[0])
    identity, at, key = text.rpartition("@")
    credential = Credential(key, identity) if at and key.startswith(PREFIX) else Credential(text)
    if not _TOKEN.fullmatch(text) or (keys and not credential.is_key) or (at and not identity):
        raise Unauthorized(f"This is no credential of Carrel's. {_HOW}")
    return credential


class Callers:
    """Verifies credentials. A token costs one round trip, and so does a key that was seen before.

    A key costs a write as well, about once an hour, so that one knows when it was last used.
    """

    def __init__(
        self,
        settings: Settings,
        keyring: Keyring,
        tokens: AccessTokens,
        access: Connection,
        clock: Clock,
    ) -> None:
        """Look keys and accounts up through `access`."""
        self._settings = settings
        self._keyring = keyring
        self._tokens = tokens
        self._access = access
        self._clock = clock
        self._owners: dict[str, str] = {}
        self._noted: dict[str, datetime] = {}

    async def identify(self, credential: Credential | None, address: str) -> Visitor:
        """Who shows this credential, or who comes without one from this address.

        Raises:
            Unauthorized: It is not valid, or there must be one.
            Unavailable: Whether it is valid cannot be found out now.
        """
        if credential is None:
            return self._without(address)
        caller = await (self._by_key if credential.is_key else self._by_token)(credential)
        embeds = self._settings.embeds_with_callers_keys and credential.is_key
        key = SecretStr(credential.text) if embeds else None
        return Visitor(caller, f"user:{caller.user_id}", embedding_key=key)

    def _without(self, address: str) -> Visitor:
        if self._settings.local_user:
            return Visitor(Caller.of(self._settings.local_user), None)
        if self._settings.public_access:
            return Visitor(Caller(), f"address:{address}")
        raise Unauthorized(
            "Sign in first: add this server's URL to your MCP client, or send a key in the header"
            " `Authorization: Bearer <key>`. It belongs in no URL."
        )

    async def _by_token(self, credential: Credential) -> Caller:
        token = self._tokens.read(credential.text)
        account = await AccessStore(self._access).accounts.get(token.user_id)
        if not account.accepts(token.made_at, token.grant_id):
            raise Unauthorized("This sign-in is over. Sign in again.")
        return Caller.of(token.user_id, token.scopes)

    async def _by_key(self, credential: Credential) -> Caller:
        key, account = await self.key(credential.text)
        task = safe_id(credential.identity) if credential.identity else None
        return Caller.of(account.user_id, key.scopes, task)

    async def key(self, text: str) -> tuple[AccessKey, Account]:
        """The key with this text, and the account of its user.

        Raises:
            Unauthorized: It is not valid.
        """
        key_id = key_id_of(self._keyring, text)
        if key_id is None:
            raise Unauthorized(_NO_KEY)
        key, account = await self._look_up(key_id)
        now = self._clock()
        is_valid = key and is_text_of(self._keyring, text, key) and key.holds(now)
        if not key or not account or not is_valid or not account.accepts(key.created_at):
            raise Unauthorized(_NO_KEY)
        await self._note_use(key, now)
        return key, account

    async def _note_use(self, key: AccessKey, now: datetime) -> None:
        """Write down when a key was last used, once for many calls; no call fails with it."""
        uses = [time for time in (key.used_at, self._noted.get(key.key_id)) if time]
        if uses and now - max(uses) <= USED_EVERY:
            return
        self._noted[key.key_id] = now
        try:
            await AccessStore(self._access).keys.used(key.key_id, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, the key is valid
            log.warning("key_use_not_noted", **error_fields(error))

    async def _look_up(self, key_id: str) -> tuple[AccessKey | None, Account | None]:
        """A key and its user's account, at once where the user is remembered."""
        store = AccessStore(self._access)
        owner = self._owners.get(key_id)
        if owner:
            return await asyncio.gather(store.keys.get(key_id), store.accounts.get(owner))
        key = await store.keys.get(key_id)
        if key is None:
            return None, None
        if len(self._owners) >= _MAX_OWNERS:
            self._owners.clear()
            self._noted.clear()
        self._owners[key_id] = key.user_id
        return key, await store.accounts.get(key.user_id)


def _bearer(header: str) -> str:
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"This is no credential of Carrel's. {_HOW}")
    return text.strip()

"""Making a key: the form, the proof on the consent page, and the page that shows the key once.

A key outlives the session that makes it. So the consent page first asks again who the visitor is,
with a key or Google, and counts the attempts. What the key shall be travels in the `state` of that
round trip, to which the code is bound: it is valid for this session and this key alone.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

from functions.gateway.auth.public_url import resource_url
from functions.gateway.console.account import LIFETIMES, require_signed_in, require_write
from functions.gateway.console.rendering import redirect
from shared.accounts.access_key import matches_key, new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.base64url import from_base64url, to_base64url
from shared.core.caller import Scope, add_implied_scopes
from shared.core.errors import Conflict, Forbidden, InvalidInput
from shared.core.log import log
from shared.firestore.database import WriteConflict

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from functions.gateway.access import Access
    from functions.gateway.console.sessions import Sessions
    from functions.gateway.console.visits import Visit
    from shared.accounts.access_key import AccessKey
    from shared.accounts.grant import Grant

MAX_NAME_LENGTH: Final = 100
MAX_KEYS: Final = 100
"""A user may have this many valid keys."""
REPEAT_WINDOW: Final = timedelta(minutes=1)
"""For this long, the same form confirmed again shows the same key: its button was pressed twice."""


@dataclass(frozen=True, slots=True)
class RequestedKey:
    """What the form asks for, beside the scopes.

    Attributes:
        name: The name.
        days: How many days it is valid, or None if it does not expire.
        nonce: A random value, by which a repeated form makes the same key.
    """

    name: str
    days: int | None
    nonce: str

    def to_state(self) -> str:
        """Write it as one word for a URL."""
        return to_base64url(json.dumps(asdict(self)).encode())

    @classmethod
    def from_state(cls, state: str) -> Self:
        """Read a state that this server made."""
        return cls(**json.loads(from_base64url(state)))


class KeyPages:
    """The pages that make a key, for who has signed in and may write."""

    def __init__(self, access: Access, sessions: Sessions) -> None:
        """Store the access to keys, and the sessions."""
        self._access = access
        self._sessions = sessions

    async def begin(self, visit: Visit, fields: dict[str, str]) -> Response:
        """Send the visitor to the consent page. Nothing is stored.

        Raises:
            Unauthorized: The visitor has not signed in.
            Forbidden: The session may not write, or has fewer scopes than the key shall have.
            InvalidInput: A field is not valid.
        """
        require_signed_in(visit, self._access)
        require_write(visit)
        key = RequestedKey(
            _require_name(fields.get("name", "")),
            _parse_days(fields.get("days", "")),
            secrets.token_urlsafe(16),
        )
        scopes = _parse_scope(fields.get("scope", ""))
        if not scopes <= visit.caller.scopes:
            raise Forbidden("A key may do no more than you may here. Choose less.")
        return self._sessions.request_proof(
            visit.request, visit.session, name=key.name, scopes=scopes, state=key.to_state()
        )

    async def complete(self, visit: Visit) -> Response:
        """Make the key and show it, when the consent page sends the visitor back with a proof.

        Costs five round trips.

        Raises:
            Unauthorized: The visitor has not signed in.
            InvalidInput: The code is not valid, or was used before.
            Forbidden: The session may not write, did not ask for this, or is another person's.
            Conflict: The key was shown before, or the visitor has too many keys.
        """
        require_signed_in(visit, self._access)
        require_write(visit)
        parameters = visit.request.query_params
        if "code" not in parameters:  # the visitor pressed Cancel
            return redirect("/you")
        state = parameters.get("state", "")
        grant = await self._sessions.verify_proof(visit.session, parameters["code"], state)
        text, key = await self._make_key(RequestedKey.from_state(state), grant, visit)
        return visit.page(
            "key.html",
            text=text,
            key=key,
            scopes=[scope for scope in Scope if scope in key.scopes],
            address=resource_url(self._access.settings),
        )

    async def _make_key(
        self, requested: RequestedKey, grant: Grant, visit: Visit
    ) -> tuple[str, AccessKey]:
        store = AccessStore(self._access.connection)
        now = await store.accounts.get_server_time()
        text, key = new_key(
            self._access.keyring,
            grant.user_id,
            requested.name,
            grant.scopes & visit.caller.scopes,
            created_at=now,
            expires_at=_find_expiry(requested, grant, now),
            request_id=f"{visit.session.grant_id}.{requested.nonce}",
        )
        keys = await store.keys.list_keys(grant.user_id)
        existing = next((other for other in keys if other.key_id == key.key_id), None)
        if existing is None and sum(other.is_valid(now) for other in keys) >= MAX_KEYS:
            raise Conflict(f"You have {MAX_KEYS} keys. Revoke one that you do not use, first.")
        try:
            if existing is None:
                await store.keys.add(key)
                log.info("key_created", user=key.user_id, key_id=key.key_id)
                return text, key
        except WriteConflict:  # the other press of the button was faster
            existing = await store.keys.get(key.key_id)
        if existing is None or not self._may_repeat(text, existing, now):
            raise Conflict(
                "This key was shown before. On the page of your account, revoke it if you did not"
                " copy it, and make another."
            )
        return text, existing

    def _may_repeat(self, text: str, key: AccessKey, now: datetime) -> bool:
        is_recent = now - key.created_at <= REPEAT_WINDOW
        return is_recent and key.is_valid(now) and matches_key(self._access.keyring, text, key)


def _find_expiry(requested: RequestedKey, grant: Grant, now: datetime) -> datetime | None:
    """Return when a key expires: never after the key that proved who makes it."""
    own_expiry = now + timedelta(days=requested.days) if requested.days else None
    return min(filter(None, (own_expiry, grant.proof.expires_at)), default=None)


def _require_name(text: str) -> str:
    name = " ".join(text.split())
    if not name.isprintable() or not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidInput(f"Give the key a name of 1 to {MAX_NAME_LENGTH} characters.")
    return name


def _parse_days(text: str) -> int | None:
    if text not in LIFETIMES:
        raise InvalidInput("Choose from the list how long the key is valid.")
    return int(text) if text else None


def _parse_scope(text: str) -> frozenset[Scope]:
    if text not in list(Scope):
        raise InvalidInput("Choose from the list what the key may do.")
    return add_implied_scopes(frozenset({Scope(text)}))

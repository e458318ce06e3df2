"""Making a key: the form, the proof on the consent page, and the page that shows the key once.

A key outlives the session that makes it. So the visitor must authenticate again on the consent
page, with a key or with Google, and the attempts are limited. The settings of the requested key
travel in the `state` of this round trip. The returned code is bound to the session and the state,
so it works only for this session and this key.

On a laptop nobody signs in, so there is no proof, and the only keys are save-only ones.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

from functions.gateway.auth.public_url import get_issuer_url, get_resource_url
from functions.gateway.console.account import (
    FOREVER,
    LIFETIMES,
    list_allowed_scopes,
    require_signed_in,
    require_write,
)
from functions.gateway.console.rendering import redirect
from shared.accounts.access_key import matches_key, new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.base64url import from_base64url, to_base64url
from shared.core.caller import Scope, add_implied_scopes
from shared.core.dates import load_time_zone
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

MAX_NAME_LENGTH: Final = 100
"""The maximum length of a key's name, in characters."""
MAX_KEYS: Final = 100
"""The maximum number of valid keys of a user. It only keeps the list short: simultaneous requests
can exceed it by a few, because counting and adding are not one transaction."""
REPEAT_WINDOW: Final = timedelta(minutes=1)
"""Confirming the same form again within this time, as by a double click, shows the same key."""


@dataclass(frozen=True, slots=True)
class RequestedKey:
    """What the form asks for, apart from the scopes.

    Attributes:
        days: For how many days the key is valid, or None if it does not expire.
        nonce: A random value that makes resubmitting the form idempotent: the key is derived from
            it.
    """

    name: str
    days: int | None
    nonce: str

    def to_state(self) -> str:
        """Encode as a URL-safe string."""
        return to_base64url(json.dumps(asdict(self)).encode())

    @classmethod
    def from_state(cls, state: str) -> Self:
        """Decode a state without validating it.

        Only call this after `Sessions.verify_proof`, which rejects a state that `begin` did not
        send.
        """
        return cls(**json.loads(from_base64url(state)))


class KeyPages:
    """The pages that make a key, for visitors who have signed in and may write."""

    def __init__(self, access: Access, sessions: Sessions) -> None:
        self._access = access
        self._sessions = sessions

    async def begin(self, visit: Visit, fields: dict[str, str]) -> Response:
        """Check the form, and send the visitor to the consent page. Nothing is stored yet.

        On a laptop, make the key and show it.

        Raises:
            Unauthorized: The visitor has not signed in.
            Forbidden: The session may not write, or lacks a scope that the key would have.
            InvalidInput: A field is not valid.
            Conflict: A laptop has too many keys.
        """
        user_id = require_signed_in(visit)
        require_write(visit)
        key = RequestedKey(
            _parse_name(fields.get("name", "")),
            _parse_days(fields.get("days", "")),
            secrets.token_urlsafe(16),
        )
        scopes = _parse_scopes(fields.get("scope", ""))
        if not scopes <= list_allowed_scopes(visit):
            raise Forbidden(
                "A key can't have more permissions than your current session. Choose fewer."
            )
        if visit.session.grant_id is None:
            return self._show(visit, *await self._make_key(key, user_id, scopes, visit))
        return self._sessions.request_proof(
            visit.request, visit.session, name=key.name, scopes=scopes, state=key.to_state()
        )

    async def complete(self, visit: Visit) -> Response:
        """Make the key and show it, once the consent page has sent the visitor back with a code.

        Costs five round trips, and one more if the same form was confirmed twice at once.

        Raises:
            Unauthorized: The visitor has not signed in.
            InvalidInput: The code is not valid, or was used before.
            Forbidden: The session may not write or did not ask for this key, or the visitor
                authenticated as someone else.
            Conflict: The key was shown before or is no longer valid, or the visitor has too many
                keys.
        """
        require_signed_in(visit)
        require_write(visit)
        parameters = visit.request.query_params
        if "code" not in parameters:  # no code: the visitor cancelled
            return redirect("/you")
        state = parameters.get("state", "")
        grant = await self._sessions.verify_proof(visit.session, parameters["code"], state)
        key_text, key = await self._make_key(
            RequestedKey.from_state(state),
            grant.user_id,
            grant.scopes & list_allowed_scopes(visit),
            visit,
            proof_expires_at=grant.proof.expires_at,
        )
        return self._show(visit, key_text, key)

    def _show(self, visit: Visit, key_text: str, key: AccessKey) -> Response:
        saves = Scope.SAVE in key.scopes
        settings = self._access.settings
        return visit.render(
            "key.html",
            key_text=key_text,
            key=key,
            zone=load_time_zone(settings.time_zone),
            scopes=[scope for scope in Scope if scope in key.scopes],
            saves=saves,
            address=get_issuer_url(settings) if saves else get_resource_url(settings),
        )

    async def _make_key(
        self,
        requested: RequestedKey,
        user_id: str,
        scopes: frozenset[Scope],
        visit: Visit,
        *,
        proof_expires_at: datetime | None = None,
    ) -> tuple[str, AccessKey]:
        """Store the key, unless this form already made it, and return its text and its record.

        The text and the id are derived from the session and the form's nonce. So a repeated form
        finds the key that it made, and can show the text, which is not stored.
        """
        store = AccessStore(self._access.connection)
        now = await store.accounts.get_server_time()
        key_text, key = new_key(
            self._access.keyring,
            user_id,
            requested.name,
            scopes,
            created_at=now,
            expires_at=_compute_expiry(requested, proof_expires_at, now),
            request_id=f"{visit.session.grant_id}.{requested.nonce}",
        )
        keys = await store.keys.list_keys(user_id)
        existing = next((other for other in keys if other.key_id == key.key_id), None)
        if existing is None:
            if sum(other.is_valid(now) for other in keys) >= MAX_KEYS:
                raise Conflict(f"You have {MAX_KEYS} keys. Revoke one that you do not use, first.")
            try:
                await store.keys.add(key)
            except WriteConflict:  # the duplicate request won the race
                existing = await store.keys.get(key.key_id)
            else:
                log.info("key_created", user=key.user_id, key_id=key.key_id)
                return key_text, key
        if existing is None or not existing.is_valid(now):
            raise Conflict(
                "This key is no longer valid: it was revoked or has expired. Create another on your"
                " account page."
            )
        if not self._may_show_again(key_text, existing, now):
            raise Conflict(
                "This key was shown before. If you didn't copy it, revoke it on your account page"
                " and create another."
            )
        return key_text, existing

    def _may_show_again(self, key_text: str, key: AccessKey, now: datetime) -> bool:
        is_recent = now - key.created_at <= REPEAT_WINDOW
        return is_recent and matches_key(self._access.keyring, key_text, key)


def _compute_expiry(
    requested: RequestedKey, proof_expires_at: datetime | None, now: datetime
) -> datetime | None:
    """Return when the key expires: never later than the key with which its maker authenticated."""
    own_expiry = now + timedelta(days=requested.days) if requested.days else None
    return min(filter(None, (own_expiry, proof_expires_at)), default=None)


def _parse_name(text: str) -> str:
    name = " ".join(text.split())
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise InvalidInput(f"Give the key a name of 1 to {MAX_NAME_LENGTH} characters.")
    if not name.isprintable():
        raise InvalidInput(
            "The key's name contains an invisible character, as some emoji do. Remove it."
        )
    return name


def _parse_days(text: str) -> int | None:
    if text not in LIFETIMES:
        raise InvalidInput("Choose from the list how long the key is valid.")
    return None if text == FOREVER else int(text)


def _parse_scopes(text: str) -> frozenset[Scope]:
    if text not in list(Scope):
        raise InvalidInput("Choose from the list what the key may do.")
    return add_implied_scopes(frozenset({Scope(text)}))

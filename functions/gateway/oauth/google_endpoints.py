"""What Google is asked over HTTP: where its endpoints are, for an ID token, for its keys."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.core.errors import Unauthorized, Unavailable
from shared.core.log import log

if TYPE_CHECKING:
    from datetime import datetime

    import httpx2

    from shared.core.dates import Clock

SECONDS: Final = 5.0
"""How long an answer may take."""
KEPT: Final = timedelta(hours=1)
"""How long what Google published is taken to be as it was."""
AGAIN: Final = 30.0
"""Seconds after which another try may succeed."""
_OK, _BAD_REQUEST = 200, 400


@dataclass(frozen=True, slots=True)
class Published:
    """What Google publishes of itself, and when we looked.

    Attributes:
        authorization: Where people sign in.
        token: Where a code becomes a token.
        keys: The keys that sign tokens, by their ids, as JSON Web Keys.
        read_at: When.
    """

    authorization: str
    token: str
    keys: dict[str, dict[str, Any]]
    read_at: datetime


class GoogleEndpoints:
    """Asks Google, or another OpenID provider at `issuer`, and remembers what it publishes."""

    def __init__(self, issuer: str, clock: Clock, seconds: float = SECONDS) -> None:
        """Ask nothing yet."""
        self._issuer = issuer.rstrip("/")
        self._clock = clock
        self._seconds = seconds
        self._published: Published | None = None

    async def published(self) -> Published:
        """Where everything is.

        Raises:
            Unavailable: Google does not say.
        """
        kept = self._published
        if kept is None or self._clock() - kept.read_at > KEPT:
            kept = self._published = await self._read()
        return kept

    async def key(self, key_id: str) -> dict[str, Any]:
        """The key with this id; where it is new to us, Google is asked once more.

        Raises:
            Unauthorized: Google has no such key.
            Unavailable: Google does not say.
        """
        published = await self.published()
        if key_id not in published.keys:
            published = self._published = await self._read()
        if key_id not in published.keys:
            raise Unauthorized("Google does not know the key that signed this. Try again.")
        return published.keys[key_id]

    async def id_token(self, form: dict[str, str]) -> str:
        """What Google gives for a code: a token that says who signed in, not verified yet.

        Raises:
            Unauthorized: The code is not valid.
            Unavailable: Google does not answer, or does not take us for its client.
        """
        published = await self.published()
        response = await self._send("POST", published.token, form)
        body = _json(response)
        token = body.get("id_token")
        if response.status_code == _OK and isinstance(token, str):
            return token
        log.warning("google_refused", status=response.status_code)
        if response.status_code == _BAD_REQUEST and body.get("error") == "invalid_grant":
            raise Unauthorized("This sign-in at Google was used before or is over. Try again.")
        raise Unavailable(
            "Google did not confirm the sign-in to this server. If that stays so, its owner has to"
            " check GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET.",
            retry_after=AGAIN,
        )

    async def _read(self) -> Published:
        found = await self._get(f"{self._issuer}/.well-known/openid-configuration")
        try:
            if found["issuer"] != self._issuer:
                raise _silent("issuer")
            keys = (await self._get(found["jwks_uri"]))["keys"]
            return Published(
                authorization=found["authorization_endpoint"],
                token=found["token_endpoint"],
                keys={key["kid"]: key for key in keys if "kid" in key},
                read_at=self._clock(),
            )
        except (KeyError, TypeError) as error:
            raise _silent("metadata") from error

    async def _get(self, url: str) -> dict[str, Any]:
        response = await self._send("GET", url)
        if response.status_code != _OK:
            raise _silent("status")
        return _json(response)

    async def _send(
        self, method: str, url: str, form: dict[str, str] | None = None
    ) -> httpx2.Response:
        import httpx2

        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx2.AsyncClient(timeout=self._seconds) as client,
            ):
                return await client.request(method, url, data=form)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _silent("unreachable") from error


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError as error:
        raise _silent("json") from error
    if not isinstance(body, dict):
        raise _silent("json")
    return body


def _silent(reason: str) -> Unavailable:
    log.warning("google_unavailable", reason=reason)
    return Unavailable("Google does not answer as it should. Try again later.", retry_after=AGAIN)

"""Sign-in with Google: the person proves there who they are, and we decide whether they may.

OpenID Connect's code flow with PKCE. Nothing is stored between going there and coming back: the
request travels in `state`, signed together with the id of the browser that left, and the nonce
and the PKCE verifier are signatures of both, which nobody else can make.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2

from functions.gateway.auth.public_url import issuer_of
from functions.gateway.oauth.redirect_uris import source_of
from shared.accounts.grant import Proof
from shared.core.base64url import to_base64url
from shared.core.caller import require_user_id
from shared.core.errors import Forbidden, Unauthorized, Unavailable
from shared.core.log import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings

CALLBACK_PATH: Final = "/signin/google"
_STATE, _NONCE, _VERIFIER = "google state", "google nonce", "google verifier"
SECONDS: Final = 5.0
"""How long an answer may take."""
_CACHE_LIFETIME: Final = timedelta(hours=1)
"""How long what Google published is taken to be as it was."""
_RETRY_SECONDS: Final = 30.0
"""Seconds after which another try may succeed."""
_OK, _BAD_REQUEST = 200, 400
_ALGORITHM: Final = "RS256"
"""The only one: a token that names its own could name one that anybody can compute."""
_CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far apart Google's clock and ours may be."""
_CLAIMS: Final = ["iss", "aud", "exp", "iat", "sub", "nonce", "email", "email_verified"]


class Google:
    """Sends people to Google, and knows whom it sent back."""

    def __init__(
        self,
        settings: Settings,
        keyring: Keyring,
        clock: Clock,
        endpoints: GoogleEndpoints | None = None,
    ) -> None:
        """Ask Google nothing yet."""
        self._client_id = settings.google_client_id
        self._secret = settings.google_client_secret
        self._issuer = settings.google_issuer.rstrip("/")
        self._callback = issuer_of(settings) + CALLBACK_PATH
        self._emails = {email.lower() for email in settings.allowed_emails}
        self._domains = {domain.lower() for domain in settings.allowed_domains}
        self._keyring = keyring
        self._clock = clock
        self._endpoints = endpoints or GoogleEndpoints(self._issuer, clock)

    @property
    def source(self) -> str:
        """Where people are sent, as a content security policy names it."""
        return source_of(urlsplit(self._issuer))

    async def address(self, sealed: str, browser_id: str) -> str:
        """Where this browser goes to sign in.

        Args:
            sealed: The request that the person approves by that.
            browser_id: What tells the browser from others.

        Raises:
            Forbidden: Nobody may sign in.
            Unavailable: Google does not answer.
        """
        if not self._emails and not self._domains:
            raise Forbidden(
                "Nobody may sign in here yet. The owner of this server has to name people in"
                " ALLOWED_EMAILS, or a Google Workspace domain in ALLOWED_DOMAINS."
            )
        # Signed with the browser's id and new each time, it is good for one sign-in in one browser.
        state = self._state(secrets.token_urlsafe(16), sealed, browser_id)
        verifier = self._keyring.sign(_VERIFIER, f"{browser_id}.{state}")
        digest = hashlib.sha256(verifier.encode()).digest()
        question = {
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "response_type": "code",
            "scope": "openid email",
            "state": state,
            "nonce": self._keyring.sign(_NONCE, f"{browser_id}.{state}"),
            "code_challenge": to_base64url(digest),
            "code_challenge_method": "S256",
            "prompt": "select_account",
        }
        endpoint = (await self._endpoints.published()).authorization
        return f"{endpoint}?{urlencode(question)}"

    def request_in(self, state: str, browser_id: str) -> str:
        """The sealed request that this browser left with.

        Raises:
            Forbidden: It did not leave from here.
        """
        salt, _, rest = state.partition(".")
        signature, _, sealed = rest.partition(".")
        if not browser_id or not self._keyring.verifies(
            _STATE, f"{browser_id}.{salt}.{sealed}", signature
        ):
            raise Forbidden(
                "This sign-in was begun in another browser. Start again from the program that sent"
                " you there."
            )
        return sealed

    async def proof(self, code: str, state: str, browser_id: str) -> Proof:
        """Who came back with this code, if they may sign in.

        Raises:
            Unauthorized: Google does not vouch for them.
            Forbidden: They are not on the list.
            InvalidInput: Their address cannot name a user.
            Unavailable: Google does not answer.
        """
        verifier = self._keyring.sign(_VERIFIER, f"{browser_id}.{state}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self._client_id,
            "client_secret": self._secret.get_secret_value(),
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        person = await _verify_id_token(
            await self._endpoints.id_token(form),
            self._endpoints.key,
            issuer=self._issuer,
            client_id=self._client_id,
            now=self._clock(),
        )
        if not self._keyring.verifies(_NONCE, f"{browser_id}.{state}", person.nonce):
            raise Unauthorized("What Google sent about you is of another sign-in. Try again.")
        if not self._may_enter(person):
            raise Forbidden(
                f"{person.email} may not sign in here. Choose another account, or ask the owner of"
                " this server to add it."
            )
        return Proof(user_id=require_user_id(person.email), kind="google", email=person.email)

    def still_allowed(self, proof: Proof) -> bool:
        """Whether somebody who signed in before would be let in again.

        The domain was Google's word at sign-in; here the address stands for it.
        """
        if proof.kind != "google" or not proof.email:
            return False
        return self._may_enter(_Person(proof.email, proof.email.rpartition("@")[2], ""))

    def _may_enter(self, person: _Person) -> bool:
        domain = person.email.rpartition("@")[2]
        return person.email in self._emails or (domain == person.domain and domain in self._domains)

    def _state(self, salt: str, sealed: str, browser_id: str) -> str:
        signature = self._keyring.sign(_STATE, f"{browser_id}.{salt}.{sealed}")
        return f"{salt}.{signature}.{sealed}"


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
        published = self._published
        if published is None or self._clock() - published.read_at > _CACHE_LIFETIME:
            published = self._published = await self._read()
        return published

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
            retry_after=_RETRY_SECONDS,
        )

    async def _read(self) -> Published:
        metadata = await self._get(f"{self._issuer}/.well-known/openid-configuration")
        try:
            if metadata["issuer"] != self._issuer:
                raise _unavailable("issuer")
            keys = (await self._get(metadata["jwks_uri"]))["keys"]
            return Published(
                authorization=metadata["authorization_endpoint"],
                token=metadata["token_endpoint"],
                keys={key["kid"]: key for key in keys if "kid" in key},
                read_at=self._clock(),
            )
        except (KeyError, TypeError) as error:
            raise _unavailable("metadata") from error

    async def _get(self, url: str) -> dict[str, Any]:
        response = await self._send("GET", url)
        if response.status_code != _OK:
            raise _unavailable("status")
        return _json(response)

    async def _send(
        self, method: str, url: str, form: dict[str, str] | None = None
    ) -> httpx2.Response:
        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx2.AsyncClient(timeout=self._seconds) as client,
            ):
                return await client.request(method, url, data=form)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _unavailable("unreachable") from error


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError as error:
        raise _unavailable("json") from error
    if not isinstance(body, dict):
        raise _unavailable("json")
    return body


def _unavailable(reason: str) -> Unavailable:
    log.warning("google_unavailable", reason=reason)
    return Unavailable(
        "Google does not answer as it should. Try again later.", retry_after=_RETRY_SECONDS
    )


@dataclass(frozen=True, slots=True)
class _Person:
    """Somebody whom Google knows.

    Attributes:
        email: Their verified address, in lower case.
        domain: The Google Workspace that they belong to, in lower case; None if to none.
        nonce: What the sign-in was asked with, to be compared.
    """

    email: str
    domain: str | None
    nonce: str


async def _verify_id_token(
    text: str,
    key_of: Callable[[str], Awaitable[dict[str, Any]]],
    *,
    issuer: str,
    client_id: str,
    now: datetime,
) -> _Person:
    """Verify an ID token (OpenID Connect Core 1.0, section 3.1.3.7).

    Args:
        text: As Google's token endpoint gave it.
        key_of: Finds a public key, as a JSON Web Key, by its id.
        issuer: Who must have made it.
        client_id: For whom it must be.
        now: The current time.

    Raises:
        Unauthorized: It is not valid.
    """
    import jwt

    try:
        header = jwt.get_unverified_header(text)
        key = jwt.PyJWK(await key_of(str(header["kid"])), _ALGORITHM)
        claims = jwt.decode(
            text,
            key,
            algorithms=[_ALGORITHM],
            audience=client_id,
            issuer=issuer,
            # Our own clock decides below: a test brings its own.
            options={
                "require": _CLAIMS,
                "strict_aud": True,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
        return _person(claims, client_id, now)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise Unauthorized("What Google sent about you is not valid. Try again.") from error


def _person(claims: dict[str, Any], client_id: str, now: datetime) -> _Person:
    moment, skew = now.timestamp(), _CLOCK_SKEW.total_seconds()
    if not claims["iat"] - skew <= moment < claims["exp"] + skew:
        raise ValueError("time")
    if claims.get("azp", client_id) != client_id:
        raise ValueError("azp")
    if claims["email_verified"] is not True:
        raise Unauthorized("Google has not verified the e-mail address of this account.")
    if not str(claims["email"]).isascii():  # in lower case, a Kelvin sign is a k
        raise ValueError("email")
    domain = claims.get("hd")
    return _Person(
        str(claims["email"]).lower(), domain and str(domain).lower(), str(claims["nonce"])
    )

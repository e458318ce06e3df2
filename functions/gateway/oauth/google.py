"""Sign-in with Google: Google confirms who a person is, and this server decides who is allowed.

This is OpenID Connect's code flow with PKCE. Nothing is stored between the redirect to Google and
the callback, because the request travels in `state`. The nonce and the PKCE verifier are derived by
signing the browser's id and the state, so only this server can compute them.

PyJWT verifies the tokens. Its `PyJWKClient` is not used to fetch the keys, because it blocks the
event loop, limits neither the total time nor the size of a response, and does not look for a
rotated key again within 30 seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2

from functions.gateway.auth.public_url import get_issuer_url
from functions.gateway.oauth.redirect_uris import format_csp_source
from shared.accounts.grant import Proof
from shared.core.base64url import to_base64url
from shared.core.caller import require_user_id
from shared.core.errors import Forbidden, Unauthorized, Unavailable
from shared.core.http import read_limited
from shared.core.log import log

if TYPE_CHECKING:
    from datetime import datetime

    from jwt import PyJWK, PyJWKSet

    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings

ISSUER: Final = "https://accounts.google.com"
CALLBACK_PATH: Final = "/signin/google"
_STATE_PURPOSE: Final = "google state"
_NONCE_PURPOSE: Final = "google nonce"
_VERIFIER_PURPOSE: Final = "google verifier"
TIMEOUT_SECONDS: Final = 5.0
"""The timeout of a request to Google, in seconds."""
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""The maximum size of a response, in bytes. Google's responses are below 10 KB."""
_CACHE_LIFETIME: Final = timedelta(hours=1)
"""How long Google's metadata and keys are cached."""
_RETRY_AFTER_SECONDS: Final = 30.0
"""How long people are asked to wait before another attempt, in seconds."""
_STATUS_OK, _STATUS_BAD_REQUEST = 200, 400
_ALGORITHM: Final = "RS256"
"""The only accepted algorithm. If tokens could choose it, an attacker would choose `none`."""
_CLOCK_SKEW: Final = timedelta(minutes=1)
"""The largest accepted difference between Google's clock and this machine's."""
_REQUIRED_CLAIMS: Final = ["iss", "aud", "exp", "iat", "sub", "nonce", "email", "email_verified"]


class GoogleSignIn:
    """Sign-in with Google: sends browsers there and verifies the identities that come back."""

    def __init__(
        self,
        settings: Settings,
        keyring: Keyring,
        clock: Clock,
        provider: OpenIdProvider | None = None,
    ) -> None:
        """Read the settings; no request is sent before the first sign-in."""
        self._client_id = settings.google_client_id
        self._client_secret = settings.google_client_secret
        self._issuer = ISSUER
        self._callback = get_issuer_url(settings) + CALLBACK_PATH
        self._emails = {email.lower() for email in settings.allowed_emails}
        self._domains = {domain.lower() for domain in settings.allowed_domains}
        self._keyring = keyring
        self._provider = provider or OpenIdProvider(self._issuer, clock)

    @property
    def csp_source(self) -> str:
        """Google's sign-in page, as a content security policy names it."""
        return format_csp_source(urlsplit(self._issuer))

    async def make_authorization_url(self, sealed_request: str, browser_id: str) -> str:
        """Return the address at Google where this browser signs in.

        Args:
            sealed_request: The authorization request that the person approves by signing in.

        Raises:
            Forbidden: The settings allow no one to sign in.
            Unavailable: Google does not answer.
        """
        if not self._emails and not self._domains:
            raise Forbidden(
                "Sign-in with Google is not set up yet. The owner of this server has to list people"
                " in ALLOWED_EMAILS, or a Google Workspace domain in ALLOWED_DOMAINS."
            )
        # The salt and the browser's id make the state valid for one sign-in in one browser.
        state = self._sign_state(secrets.token_urlsafe(16), sealed_request, browser_id)
        verifier = self._keyring.sign(_VERIFIER_PURPOSE, f"{browser_id}.{state}")
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "response_type": "code",
            "scope": "openid email",
            "state": state,
            "nonce": self._keyring.sign(_NONCE_PURPOSE, f"{browser_id}.{state}"),
            "code_challenge": to_base64url(digest),
            "code_challenge_method": "S256",
            "prompt": "select_account",
        }
        endpoint = (await self._provider.get_metadata()).authorization_endpoint
        return f"{endpoint}?{urlencode(query)}"

    def verify_state(self, state: str, browser_id: str) -> str:
        """Return the sealed request with which this browser was sent to Google.

        Raises:
            Forbidden: This server did not issue the state, or issued it to another browser.
        """
        salt, _, signed_part = state.partition(".")
        signature, _, sealed_request = signed_part.partition(".")
        if not browser_id or not self._keyring.verify(
            _STATE_PURPOSE, f"{browser_id}.{salt}.{sealed_request}", signature
        ):
            raise Forbidden(
                "This sign-in was started in another browser, or cookies are blocked. Allow cookies"
                " for this site, and start again from the program that sent you here."
            )
        return sealed_request

    async def authenticate(self, code: str, state: str, browser_id: str) -> Proof:
        """Exchange the code, and return the proof of identity of an allowed person.

        Raises:
            Unauthorized: Google does not confirm the person's identity.
            Forbidden: The person is not allowed to sign in.
            InvalidInput: The person's e-mail address is not valid as a user id.
            Unavailable: Google does not answer.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self._client_id,
            "client_secret": self._client_secret.get_secret_value(),
            "redirect_uri": self._callback,
            "code_verifier": self._keyring.sign(_VERIFIER_PURPOSE, f"{browser_id}.{state}"),
        }
        token = await self._provider.exchange_code(form)
        identity = await _verify_id_token(token, self._provider, self._issuer, self._client_id)
        if not self._keyring.verify(_NONCE_PURPOSE, f"{browser_id}.{state}", identity.nonce):
            raise Unauthorized("Google's answer belongs to another sign-in. Try again.")
        if not self._is_allowed(identity):
            raise Forbidden(
                f"{identity.email} is not allowed to sign in here. Choose another account, or ask"
                " the owner of this server to add it."
            )
        return Proof(user_id=require_user_id(identity.email), kind="google", email=identity.email)

    def is_still_allowed(self, proof: Proof) -> bool:
        """Return whether a person who signed in earlier is still allowed.

        The Workspace domain is read from the e-mail address, since Google names it only at sign-in.
        """
        if proof.kind != "google" or not proof.email:
            return False
        return self._is_allowed(_Identity(proof.email, proof.email.rpartition("@")[2], nonce=""))

    def _is_allowed(self, identity: _Identity) -> bool:
        domain = identity.email.rpartition("@")[2]
        is_in_domain = domain == identity.domain and domain in self._domains
        return identity.email in self._emails or is_in_domain

    def _sign_state(self, salt: str, sealed_request: str, browser_id: str) -> str:
        signature = self._keyring.sign(_STATE_PURPOSE, f"{browser_id}.{salt}.{sealed_request}")
        return f"{salt}.{signature}.{sealed_request}"


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """An OpenID provider's metadata and keys."""

    authorization_endpoint: str
    token_endpoint: str
    keys: PyJWKSet
    fetched_at: datetime


class OpenIdProvider:
    """A client of Google, or of another OpenID provider, that caches its metadata and keys."""

    def __init__(self, issuer: str, clock: Clock, timeout: float = TIMEOUT_SECONDS) -> None:
        """Store the issuer and the timeout in seconds; nothing is fetched yet."""
        self._issuer = issuer.rstrip("/")
        self._clock = clock
        self._timeout = timeout
        self._cached_metadata: ProviderMetadata | None = None

    async def get_metadata(self) -> ProviderMetadata:
        """Return the provider's metadata, at most an hour old.

        Raises:
            Unavailable: The provider does not answer.
        """
        if (
            self._cached_metadata
            and self._clock() - self._cached_metadata.fetched_at <= _CACHE_LIFETIME
        ):
            return self._cached_metadata
        return await self._fetch()

    async def get_signing_key(self, key_id: str) -> PyJWK:
        """Return the key with this id. An unknown id triggers a refetch.

        Raises:
            Unauthorized: The provider has no such key.
            Unavailable: The provider does not answer.
        """
        try:
            return (await self.get_metadata()).keys[key_id]
        except KeyError:
            metadata = await self._fetch()
        try:
            return metadata.keys[key_id]
        except KeyError:
            raise Unauthorized("Google has no key that matches its answer. Try again.") from None

    async def exchange_code(self, form: dict[str, str]) -> str:
        """Exchange a code for an unverified ID token.

        Raises:
            Unauthorized: The code is not valid.
            Unavailable: The provider does not answer, or rejects this server's credentials.
        """
        metadata = await self.get_metadata()
        status, body = await self._send("POST", metadata.token_endpoint, form)
        token = body.get("id_token")
        if status == _STATUS_OK and isinstance(token, str):
            return token
        log.warning("google_refused", status=status)
        if status == _STATUS_BAD_REQUEST and body.get("error") == "invalid_grant":
            raise Unauthorized("This sign-in has expired or was used before. Try again.")
        raise Unavailable(
            "Google did not confirm the sign-in to this server. If this persists, the owner of"
            " this server has to check GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET.",
            retry_after=_RETRY_AFTER_SECONDS,
        )

    async def _fetch(self) -> ProviderMetadata:
        import jwt

        document = await self._get(f"{self._issuer}/.well-known/openid-configuration")
        try:
            if document["issuer"] != self._issuer:
                raise _log_and_make_unavailable("issuer")
            keys = jwt.PyJWKSet.from_dict(await self._get(document["jwks_uri"]))
            self._cached_metadata = ProviderMetadata(
                authorization_endpoint=document["authorization_endpoint"],
                token_endpoint=document["token_endpoint"],
                keys=keys,
                fetched_at=self._clock(),
            )
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            raise _log_and_make_unavailable("metadata") from error
        return self._cached_metadata

    async def _get(self, url: str) -> dict[str, Any]:
        status, body = await self._send("GET", url)
        if status != _STATUS_OK:
            raise _log_and_make_unavailable("status")
        return body

    async def _send(
        self, method: str, url: str, form: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the status and the JSON object of the response."""
        try:
            async with (
                asyncio.timeout(self._timeout),
                httpx2.AsyncClient(timeout=self._timeout) as client,
                client.stream(method, url, data=form) as response,
            ):
                content = await read_limited(response.aiter_bytes(), MAX_RESPONSE_BYTES)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _log_and_make_unavailable("unreachable") from error
        if content is None:
            raise _log_and_make_unavailable("too_large")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise _log_and_make_unavailable("json") from error
        if not isinstance(body, dict):
            raise _log_and_make_unavailable("json")
        return response.status_code, body


def _log_and_make_unavailable(reason: str) -> Unavailable:
    log.warning("google_unavailable", reason=reason)
    return Unavailable(
        "Google does not answer as expected. Try again later.", retry_after=_RETRY_AFTER_SECONDS
    )


@dataclass(frozen=True, slots=True)
class _Identity:
    """A person's identity from a verified ID token.

    Attributes:
        email: Their verified address, in lower case.
        domain: Their Google Workspace domain, in lower case, or None if they have none.
        nonce: The nonce of the sign-in, which the caller has to compare.
    """

    email: str
    domain: str | None
    nonce: str


async def _verify_id_token(
    token: str, provider: OpenIdProvider, issuer: str, client_id: str
) -> _Identity:
    """Verify an ID token (OpenID Connect Core 1.0, section 3.1.3.7).

    Raises:
        Unauthorized: The token is not valid.
    """
    import jwt

    try:
        key = await provider.get_signing_key(str(jwt.get_unverified_header(token)["kid"]))
        claims = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=client_id,
            issuer=issuer,
            leeway=_CLOCK_SKEW,
            options={"require": _REQUIRED_CLAIMS, "strict_aud": True},
        )
        return _parse_identity(claims, client_id)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise Unauthorized("Google's answer is not valid. Try again.") from error


def _parse_identity(claims: dict[str, Any], client_id: str) -> _Identity:
    if claims.get("azp", client_id) != client_id:
        raise ValueError("azp")
    if claims["email_verified"] is not True:
        raise Unauthorized("Google has not verified the e-mail address of this account.")
    if not str(claims["email"]).isascii():  # in lower case, a Kelvin sign becomes a k
        raise ValueError("email")
    domain = claims.get("hd")
    return _Identity(
        str(claims["email"]).lower(), domain and str(domain).lower(), str(claims["nonce"])
    )

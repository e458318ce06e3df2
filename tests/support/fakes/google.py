"""A fake of Google's OpenID provider, with everything that sign-in needs.

Its responses have the format of accounts.google.com and oauth2.googleapis.com:

- the discovery document and the public keys;
- the authorization endpoint, which redirects the browser straight back;
- the token endpoint, which accepts each code once, and only with the client's secret, the redirect
  URI and the PKCE verifier.
"""

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import RSAAlgorithm
from jwt.utils import base64url_encode

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

CLIENT_ID: Final = "1234-carrel.apps.googleusercontent.com"
CLIENT_SECRET: Final = "GOCSPX-test"
_HOUR: Final = 3600
"""The lifetime of tokens in seconds."""
Query = dict[str, str]
"""The parameters of a URL's query or of a form."""


@dataclass
class Account:
    """The account that signs in, and the faults of its ID token.

    Attributes:
        email: The e-mail address as Google writes it.
        claims: Claims to change; None leaves a claim out.
        algorithm: The algorithm of the signature: `RS256`, `none`, or `HS256` with the public key.
        has_unpublished_key: Whether the token is signed with an unpublished key.
        key_id: A wrong key id in the token's header.
        token: A text to return in place of an ID token.
        refusal: The parameters of the redirect in place of a code.
    """

    email: str = "Ada@example.com"
    claims: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    has_unpublished_key: bool = False
    key_id: str | None = None
    token: str | None = None
    refusal: Query | None = None


class FakeGoogle(LoopbackServer):
    """A fake OpenID provider on a free port while the `with` block runs.

    Attributes:
        account: The account that signs in.
        now: Google's clock in seconds since 1970; by default, the system's.
        statuses: The HTTP statuses that replace the correct ones, by path.
        bodies: The bodies that replace the correct ones, by path.
        delay: Seconds before each response.
        requests: The path of each request so far.
        authorization_requests: The parameters of each authorization request so far.
        codes: The parameters of the authorization request of each unused code, by code.
        key_id: The id of the key that signs ID tokens.
        key: The key that signs ID tokens.
    """

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.account = Account()
        self.now: float | None = None
        self.statuses: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}
        self.delay = 0.0
        self.requests: list[str] = []
        self.authorization_requests: list[Query] = []
        self.codes: dict[str, Query] = {}
        self.change_key("key-1")

    def change_key(self, key_id: str) -> None:
        """Sign with a new key, and publish only this key."""
        self.key_id, self.key = key_id, _generate_key(key_id)

    @property
    def issuer(self) -> str:
        """The issuer's URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def make_discovery_document(self) -> dict[str, Any]:
        """Return the discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/o/oauth2/v2/auth",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/oauth2/v3/certs",
            "response_types_supported": ["code", "token", "id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid", "email", "profile"],
            "code_challenge_methods_supported": ["plain", "S256"],
        }

    def make_key_set(self) -> dict[str, Any]:
        """Return the JSON Web Key Set."""
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [key | {"kid": self.key_id, "use": "sig", "alg": "RS256"}]}

    def make_id_token(self, request: Query) -> str:
        """Make the ID token for an authorization request."""
        account, now = self.account, int(self.now or time.time())
        claims = {
            "iss": self.issuer,
            "azp": CLIENT_ID,
            "aud": CLIENT_ID,
            "sub": "110169484474386276334",
            "email": account.email,
            "email_verified": True,
            "at_hash": "HK6E_P6Dh8Y93mRNtsDB1Q",
            "nonce": request.get("nonce"),
            "iat": now,
            "exp": now + _HOUR,
        }
        all_claims = claims | account.claims
        claims = {name: value for name, value in all_claims.items() if value is not None}
        return account.token or _sign(account, claims, self.key, account.key_id or self.key_id)


class _Handler(LoopbackHandler):
    server: FakeGoogle

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self._has_fault(url.path):
            return
        match url.path:
            case "/.well-known/openid-configuration":
                self._send(200, self.server.make_discovery_document())
            case "/oauth2/v3/certs":
                self._send(200, self.server.make_key_set())
            case "/o/oauth2/v2/auth":
                self._authorize(_parse_query(url.query))
            case _:
                self._send(404, {"error": "not_found"})

    def do_POST(self) -> None:
        form = _parse_query(self.read_body().decode())
        if self._has_fault(urlsplit(self.path).path):
            return None
        if self.path != "/token":
            return self._send(404, {"error": "not_found"})
        if (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET):
            error = {"error": "invalid_client", "error_description": "Unauthorized"}
            return self._send(401, error)
        request = self.server.codes.pop(form["code"], None)
        if request is None or not _is_valid_exchange(form, request):
            error = {"error": "invalid_grant", "error_description": "Malformed auth code."}
            return self._send(400, error)
        tokens = {
            "access_token": "ya29.a0Af-unused",
            "expires_in": _HOUR - 1,
            "scope": "openid https://www.googleapis.com/auth/userinfo.email",
            "token_type": "Bearer",
            "id_token": self.server.make_id_token(request),
        }
        return self._send(200, tokens)

    def _authorize(self, request: Query) -> None:
        self.server.authorization_requests.append(request)
        assert request["response_type"] == "code"
        assert request["client_id"] == CLIENT_ID
        assert set(request["scope"].split()) == {"openid", "email"}
        code = f"4/{secrets.token_urlsafe(30)}"
        self.server.codes[code] = request
        answer = self.server.account.refusal or {"code": code, "scope": "openid email"}
        query = urlencode({"state": request["state"], **answer})
        self._send(302, {}, {"location": f"{request['redirect_uri']}?{query}"})

    def _has_fault(self, path: str) -> bool:
        self.server.requests.append(path)
        time.sleep(self.server.delay)
        status, body = self.server.statuses.get(path), self.server.bodies.get(path)
        if status is None and body is None:
            return False
        self._send(status or 200, body if body is not None else {"error": "internal_failure"})
        return True

    def _send(
        self, status: int, body: Mapping[str, Any] | bytes, headers: Query | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        content_type = {"Content-Type": "application/json; charset=utf-8"}
        with suppress(ConnectionError):  # the client may have disconnected
            self.send_answer(status, content, content_type | (headers or {}))


@cache
def _generate_key(key_id: str) -> RSAPrivateKey:  # noqa: ARG001 - the cache key
    """Generate the key with this id. It is cached, since generating is slow."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _sign(account: Account, claims: dict[str, Any], key: RSAPrivateKey, key_id: str) -> str:
    if account.algorithm == "HS256":
        return _sign_with_public_key(claims, key, key_id)
    signing_key = _generate_key("unpublished") if account.has_unpublished_key else key
    if account.algorithm == "none":
        return jwt.encode(claims, "", "none", {"kid": key_id})
    return jwt.encode(claims, signing_key, account.algorithm, {"kid": key_id})


def _sign_with_public_key(claims: dict[str, Any], key: RSAPrivateKey, key_id: str) -> str:
    """Sign as in the attack on careless verifiers: an HMAC with the public key as the secret."""
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = {"alg": "HS256", "kid": key_id, "typ": "JWT"}
    body = b".".join(base64url_encode(json.dumps(part).encode()) for part in (header, claims))
    signature = base64url_encode(hmac.digest(public, body, "sha256"))
    return f"{body.decode()}.{signature.decode()}"


def _is_valid_exchange(form: Query, request: Query) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    return (
        form["grant_type"] == "authorization_code"
        and form["redirect_uri"] == request["redirect_uri"]
        and request["code_challenge_method"] == "S256"
        and base64url_encode(digest).decode() == request["code_challenge"]
    )


def _parse_query(query: str) -> Query:
    return {name: values[0] for name, values in parse_qs(query).items()}

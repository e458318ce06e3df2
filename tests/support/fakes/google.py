"""A server that answers like Google's OpenID provider, as far as signing in needs it.

Its forms are those of accounts.google.com and oauth2.googleapis.com: discovery, an authorization
endpoint that sends the browser straight back, a token endpoint that takes each code once and only
with its secret, redirect address and PKCE verifier, and the public keys.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

CLIENT_ID: Final = "1234-carrel.apps.googleusercontent.com"
CLIENT_SECRET: Final = "GOCSPX-only-the-test-knows"
_HOUR: Final = 3600
Query = dict[str, str]


@dataclass
class Account:
    """Who signs in, and what is wrong with what is said of them.

    Attributes:
        email: As Google writes it.
        claims: Claims to change; None leaves one out.
        algorithm: What signs the ID token: `RS256`, `none`, or `HS256` with the public key.
        foreign_key: Whether another key signs than the one that is published.
        key_id: What the token says signed it, where that is not so.
        token: What is given in the place of any ID token.
        refusal: What comes back to us in the place of a code.
    """

    email: str = "Ada@example.com"
    claims: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    foreign_key: bool = False
    key_id: str | None = None
    token: str | None = None
    refusal: Query | None = None


class FakeGoogle(ThreadingHTTPServer):
    """Listens on a free port of this machine while the `with` block runs.

    Attributes:
        account: Who signs in from now on.
        now: Seconds since 1970 that Google's clock shows; by default, the system's.
        statuses: A status to answer with, by path, in the place of everything else.
        bodies: A body to answer with, by path.
        pause: Seconds to think before each answer.
        asked: The path of each request so far.
        questions: What each browser came with.
    """

    daemon_threads = True
    request_queue_size = 128  # or a sixth client at once tries again after a second

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.account = Account()
        self.now: float | None = None
        self.statuses: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}
        self.pause = 0.0
        self.asked: list[str] = []
        self.questions: list[Query] = []
        self.codes: dict[str, Query] = {}
        self.change_key("key-1")
        self._loop = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    def change_key(self, key_id: str) -> None:
        """Sign with this key from now on, and publish no other."""
        self.key_id, self.key = key_id, _key(key_id)

    def __enter__(self) -> Self:
        """Start answering."""
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and leave the port to nobody."""
        self.shutdown()
        self._loop.join()
        self.server_close()

    @property
    def issuer(self) -> str:
        """What names it."""
        return f"http://127.0.0.1:{self.server_port}"

    def discovery(self) -> dict[str, Any]:
        """Where everything is."""
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

    def published_keys(self) -> dict[str, Any]:
        """The public key, as a set."""
        key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [key | {"kid": self.key_id, "use": "sig", "alg": "RS256"}]}

    def id_token(self, question: Query) -> str:
        """What says who signed in."""
        account, now = self.account, int(self.now or time.time())
        claims = {
            "iss": self.issuer,
            "azp": CLIENT_ID,
            "aud": CLIENT_ID,
            "sub": "110169484474386276334",
            "email": account.email,
            "email_verified": True,
            "at_hash": "HK6E_P6Dh8Y93mRNtsDB1Q",
            "nonce": question.get("nonce"),
            "iat": now,
            "exp": now + _HOUR,
        }
        said = {name: each for name, each in (claims | account.claims).items() if each is not None}
        return account.token or _signed(account, said, self.key, account.key_id or self.key_id)


class _Handler(BaseHTTPRequestHandler):
    server: FakeGoogle

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self._is_disturbed(url.path):
            return
        match url.path:
            case "/.well-known/openid-configuration":
                self._send(200, self.server.discovery())
            case "/oauth2/v3/certs":
                self._send(200, self.server.published_keys())
            case "/o/oauth2/v2/auth":
                self._authorize(_flat(url.query))
            case _:
                self._send(404, {"error": "not_found"})

    def do_POST(self) -> None:
        form = _flat(self.rfile.read(int(self.headers["content-length"])).decode())
        if self._is_disturbed(urlsplit(self.path).path):
            return None
        if self.path != "/token":
            return self._send(404, {"error": "not_found"})
        if (form["client_id"], form["client_secret"]) != (CLIENT_ID, CLIENT_SECRET):
            said = {"error": "invalid_client", "error_description": "Unauthorized"}
            return self._send(401, said)
        question = self.server.codes.pop(form["code"], None)
        if question is None or not _fits(form, question):
            said = {"error": "invalid_grant", "error_description": "Malformed auth code."}
            return self._send(400, said)
        answer = {
            "access_token": "ya29.a0Af-nobody-needs-it",
            "expires_in": _HOUR - 1,
            "scope": "openid https://www.googleapis.com/auth/userinfo.email",
            "token_type": "Bearer",
            "id_token": self.server.id_token(question),
        }
        return self._send(200, answer)

    def _authorize(self, question: Query) -> None:
        self.server.questions.append(question)
        assert "code" == question["response_type"]
        assert CLIENT_ID == question["client_id"]
        assert {"openid", "email"} == set(question["scope"].split())
        code = f"4/{secrets.token_urlsafe(30)}"
        self.server.codes[code] = question
        answer = self.server.account.refusal or {"code": code, "scope": "openid email"}
        told = urlencode({"state": question["state"], **answer})
        self._send(302, {}, {"location": f"{question['redirect_uri']}?{told}"})

    def _is_disturbed(self, path: str) -> bool:
        self.server.asked.append(path)
        time.sleep(self.server.pause)
        status, body = self.server.statuses.get(path), self.server.bodies.get(path)
        if status is None and body is None:
            return False
        self._send(status or 200, body if body is not None else {"error": "internal_failure"})
        return True

    def _send(
        self, status: int, body: Mapping[str, Any] | bytes, headers: Query | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # whoever asked may have gone
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@cache
def _key(key_id: str) -> RSAPrivateKey:  # noqa: ARG001 - each has its own
    """The key of this id: made once, for that takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _signed(account: Account, claims: dict[str, Any], key: RSAPrivateKey, key_id: str) -> str:
    if account.algorithm == "HS256":
        return _signed_with_what_is_public(claims, key, key_id)
    signing = _key("of another") if account.foreign_key else key
    if account.algorithm == "none":
        return jwt.encode(claims, "", "none", {"kid": key_id})
    return jwt.encode(claims, signing, account.algorithm, {"kid": key_id})


def _signed_with_what_is_public(claims: dict[str, Any], key: RSAPrivateKey, key_id: str) -> str:
    """What a careless verifier takes: an HMAC whose secret is the public key's text."""
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = {"alg": "HS256", "kid": key_id, "typ": "JWT"}
    body = ".".join(_base64(json.dumps(each).encode()) for each in (header, claims))
    return f"{body}.{_base64(hmac.digest(public, body.encode(), 'sha256'))}"


def _fits(form: Query, question: Query) -> bool:
    challenge = _base64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
    return (
        form["grant_type"] == "authorization_code"
        and form["redirect_uri"] == question["redirect_uri"]
        and question["code_challenge_method"] == "S256"
        and challenge == question["code_challenge"]
    )


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _flat(query: str) -> Query:
    return {name: values[0] for name, values in parse_qs(query).items()}

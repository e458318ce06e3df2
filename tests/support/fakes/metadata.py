"""A fake of Google's metadata server, which issues ID tokens and access tokens.

The variables `GCE_METADATA_HOST` and `GCE_METADATA_IP` direct a process to the fake. google-auth
reads them when it is imported.
"""

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jwt.utils import base64url_encode

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

_ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"
"""The path of the instance's service account."""
_HOUR = 3600.0
"""The default lifetime of tokens in seconds."""


class FakeMetadata(LoopbackServer):
    """A fake metadata server on a free port while the `with` block runs.

    Attributes:
        audiences: The audiences of requested tokens, in order.
        lifetime: Seconds until an issued token expires.
        pause_seconds: Seconds before the response with a token.
        refusal: The HTTP status of responses without an ID token, if any.
        token: A text to return in place of a well-formed ID token, if any.
        access_token: The access token of the account.
    """

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.audiences: list[str] = []
        self.lifetime = _HOUR
        self.pause_seconds = 0.0
        self.refusal: int | None = None
        self.token: str | None = None
        self.access_token = "ya29.access"

    @property
    def address(self) -> str:
        """The server's address as host:port."""
        return f"127.0.0.1:{self.server_port}"


class _Handler(LoopbackHandler):
    server: FakeMetadata

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self.headers["Metadata-Flavor"] != "Google":
            return self._send(403, "text/html", "Missing Metadata-Flavor:Google header.")
        match url.path:
            case "" | "/":
                return self._send(200, "application/text", "computeMetadata/\n")
            case path if path == _ACCOUNT:
                account = {"aliases": ["default"], "email": "gateway@example.test", "scopes": []}
                return self._send(200, "application/json", json.dumps(account))
            case path if path == f"{_ACCOUNT}identity":
                return self._answer_identity(parse_qs(url.query))
            case path if path == f"{_ACCOUNT}token":
                token = {"access_token": self.server.access_token, "expires_in": _HOUR}
                return self._send(200, "application/json", json.dumps(token))
        return self._send(404, "text/html", "Not Found")

    def _answer_identity(self, query: dict[str, list[str]]) -> None:
        [audience] = query["audience"]
        assert query["format"] == ["full"]
        self.server.audiences.append(audience)
        self.server.pause(self.server.pause_seconds)
        if self.server.refusal:
            return self._send(self.server.refusal, "text/html", "No token for you.")
        number = len(self.server.audiences)
        token = self.server.token or _make_token(
            audience, number, time.time() + self.server.lifetime
        )
        return self._send(200, "text/html", token)

    def _send(self, status: int, content_type: str, body: str) -> None:
        headers = {
            "Metadata-Flavor": "Google",
            "Server": "Metadata Server for VM",
            "Content-Type": content_type,
        }
        self.send_answer(status, body.encode(), headers)


def decode_claims(token: str) -> dict[str, Any]:
    """Return the claims of a token, without checking its signature."""
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return claims


def _make_token(audience: str, number: int, expiry: float) -> str:
    header = {"alg": "RS256", "typ": "JWT"}
    claims = {
        "aud": audience,
        "exp": int(expiry),
        "iss": "https://accounts.google.com",
        "jti": number,
    }
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), b"a signature"]
    return b".".join(map(base64url_encode, parts)).decode()

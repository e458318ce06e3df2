"""Fake Google service accounts, which issue and verify ID tokens."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from shared.core.dates import utc_now

ISSUER: Final = "https://accounts.google.com"
"""The issuer of ID tokens."""
LIFETIME: Final = timedelta(hours=1)
"""The time for which an ID token is valid."""
_ALGORITHM: Final = "RS256"
_DOMAIN: Final = "@carrel-local.iam.gserviceaccount.com"
_ACCOUNT: Final = "/computeMetadata/v1/instance/service-accounts/default/"
"""The path of an instance's service account on its metadata server."""
_FLAVOR: Final = {"Metadata-Flavor": "Google"}


class Accounts:
    """Issues tokens of service accounts, and verifies them."""

    def __init__(self) -> None:
        """Generate the signing key."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def issue_token(self, account: str, audience: str) -> str:
        """Return a token that authenticates the account to the audience.

        The claims are those of https://cloud.google.com/docs/authentication/token-types#id-contents
        """
        now = utc_now()
        claims = {
            "aud": audience,
            "azp": account,
            "email": format_email(account),
            "email_verified": True,
            "exp": int((now + LIFETIME).timestamp()),
            "iat": int(now.timestamp()),
            "iss": ISSUER,
            "sub": account,
        }
        return jwt.encode(claims, self._key, _ALGORITHM)

    def verify_token(self, token: str, audience: str) -> str:
        """Return the email of the account of a token for this audience.

        Raises:
            jwt.InvalidTokenError: The token was issued elsewhere, is for another audience, or has
                expired.
        """
        claims = jwt.decode(
            token, self._key.public_key(), [_ALGORITHM], audience=audience, issuer=ISSUER
        )
        return str(claims["email"])


def format_email(account: str) -> str:
    """Return the email of a service account."""
    return account + _DOMAIN


class MetadataServers:
    """The metadata servers of instances, each on its own port. They issue only ID tokens.

    See https://cloud.google.com/compute/docs/metadata/querying-metadata and
    https://cloud.google.com/run/docs/securing/service-identity
    """

    def __init__(self, accounts: Accounts, names_by_port: Mapping[int, str]) -> None:
        """Issue tokens of these service accounts, each on its port."""
        self._accounts = accounts
        self._names_by_port = names_by_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        port = scope["server"][1]
        is_local = request.headers.get("host") in {f"127.0.0.1:{port}", f"localhost:{port}"}
        if not is_local or "x-forwarded-for" in request.headers:  # from a web page or a proxy
            response: Response = PlainTextResponse("Forbidden", 403)
        else:
            response = self._answer(request, self._names_by_port[port])
        response.headers["Server"] = "Metadata Server for Serverless"
        await response(scope, receive, send)

    def _answer(self, request: Request, account: str) -> Response:
        if request.headers.get("Metadata-Flavor") != "Google":
            return PlainTextResponse("Missing Metadata-Flavor:Google header.", 403)
        match request.url.path, request.query_params.get("audience"):
            case "/", _:
                return PlainTextResponse("computeMetadata/\n", headers=_FLAVOR)
            case path, _ if path == _ACCOUNT:
                description = {"aliases": ["default"], "email": format_email(account), "scopes": []}
                return JSONResponse(description, headers=_FLAVOR)
            case path, str(audience) if path == f"{_ACCOUNT}identity":
                token = self._accounts.issue_token(account, audience)
                return PlainTextResponse(token, headers=_FLAVOR)
        return PlainTextResponse("Not Found", 404, headers=_FLAVOR)

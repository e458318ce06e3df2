"""Carrel's authorization server without the rest of the gateway, and requests to it.

A program is an OAuth client, such as a chat application, that a person lets use Carrel. The server
runs in the test's own process, so a test can set its clock, ban users, and make parts of it fail.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from jwt.utils import base64url_encode
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import SecretStr
from starlette.applications import Starlette

from functions.gateway.access import Access
from functions.gateway.oauth.authorization import Approvals, AuthorizationRequest, unseal
from functions.gateway.oauth.provider import SignInService
from functions.gateway.oauth.routes import make_program_routes
from shared.accounts.grant import Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.clock import SettableClock

ISSUER: Final = "https://carrel.example"
"""The URL of the server, and so the issuer of its tokens."""
RESOURCE: Final = f"{ISSUER}/mcp"
"""The URL of the MCP endpoint, for which the tokens are."""
REDIRECT_URI: Final = "https://program.example/back"
"""The redirect URI of programs."""
CODE_VERIFIER: Final = "v" * 43
"""A PKCE code verifier of the minimum length (RFC 7636)."""
NOON: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
"""The initial time of the server's clock."""
GOOGLE_PROOF: Final = Proof(user_id="ada@example.com", kind="google", email="ada@example.com")
"""A person who has signed in with Google."""


@dataclass
class FakeClientDocuments:
    """A lookup of client ID metadata documents that can fail.

    Attributes:
        published: The documents by client id, which is the URL of the document.
        error: The error that every lookup raises, if any.
        requests: The client ids that were looked up.
    """

    published: dict[str, OAuthClientMetadata] = field(default_factory=dict)
    error: Exception | None = None
    requests: list[str] = field(default_factory=list)

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """Return the document of the client with this id, or None if there is none."""
        self.requests.append(client_id)
        if self.error:
            raise self.error
        return self.published.get(client_id)

    def add(self, client_id: str, *redirect_uris: str) -> str:
        """Publish a document for this id, and return the id."""
        document = {"client_name": "Published", "redirect_uris": redirect_uris}
        self.published[client_id] = OAuthClientMetadata.model_validate(document)
        return client_id


@dataclass
class FakeRateLimit:
    """A rate limit that limits nothing until a test sets an error.

    Attributes:
        attempts: The network addresses of all attempts.
        error: The error that every attempt raises, if any.
    """

    attempts: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def __call__(self, address: str) -> None:
        """Record an attempt."""
        self.attempts.append(address)
        if self.error:
            raise self.error


@dataclass
class AuthorizationServer:
    """An authorization server with its database, and the requests that programs send to it.

    Attributes:
        access: The real access services.
        clock: The server's clock.
        documents: The published client documents.
        limit: The rate limit of registrations and document lookups.
        banned: E-mail addresses that may no longer sign in.
        error: The error that the server gets when it asks whether a person may sign in, if any.
        timeout: The time limit of a request in seconds.
        address: The network address that requests come from.
        app: The ASGI app with the server's endpoints.
        http: An HTTP client that calls the endpoints in this process.
    """

    access: Access
    clock: SettableClock
    documents: FakeClientDocuments = field(default_factory=FakeClientDocuments)
    limit: FakeRateLimit = field(default_factory=FakeRateLimit)
    banned: set[str | None] = field(default_factory=set)
    error: Exception | None = None
    timeout: float = 10.0
    address: str = "1.2.3.4"

    def __post_init__(self) -> None:
        """Create the endpoints, and a client that calls them in this process."""
        access = self.access
        sign_ins = SignInService(
            access.keyring, access.tokens, access.connection, access.clock, self.is_still_allowed
        )
        self.app = Starlette(
            routes=make_program_routes(
                access, self.documents, sign_ins, self.limit, timeout=self.timeout
            )
        )
        transport = httpx2.ASGITransport(self.app, client=(self.address, 5))
        self.http = httpx2.AsyncClient(transport=transport, base_url=ISSUER)

    @property
    def store(self) -> AccessStore:
        """The server's database."""
        return AccessStore(self.access.connection)

    @property
    def approvals(self) -> Approvals:
        """The service that makes codes."""
        keyring, connection = self.access.keyring, self.access.connection
        return Approvals(keyring, connection, ISSUER, self.clock)

    def is_still_allowed(self, proof: Proof) -> bool:
        """Return whether a person may still sign in: the server's check."""
        if self.error:
            raise self.error
        return proof.email not in self.banned

    async def register(self, **metadata: Any) -> OAuthClientInformationFull:
        """Register a program, and parse the response as the official client does.

        The `metadata` override the defaults.
        """
        body = {"client_name": "Program", "redirect_uris": [REDIRECT_URI]} | metadata
        answer = await self.http.post("/register", json=body)
        assert answer.status_code == 201
        assert answer.headers["cache-control"] == "no-store"
        return OAuthClientInformationFull.model_validate_json(answer.content)

    async def authorize(self, client_id: str, **changes: str | None) -> httpx2.Response:
        """Request authorization as a browser does. A change to None omits the parameter."""
        return await self.http.get(
            "/authorize", params=make_authorization_parameters(client_id, **changes)
        )

    async def request_authorization(
        self, client_id: str, **changes: str | None
    ) -> AuthorizationRequest:
        """Request authorization, and return the request that the consent page receives."""
        answer = await self.authorize(client_id, **changes)
        assert answer.status_code == 302, answer.text
        page = urlsplit(answer.headers["location"])
        assert f"{page.scheme}://{page.netloc}{page.path}" == f"{ISSUER}/consent"
        sealed_request = parse_qs(page.query)["request"][0]
        return unseal(self.access.keyring, sealed_request, self.clock)

    async def issue_code(
        self, client_id: str, proof: Proof = GOOGLE_PROOF, **changes: str | None
    ) -> str:
        """Return the authorization code that a program receives when a person approves."""
        request = await self.request_authorization(client_id, **changes)
        location = await self.approvals.approve(request, proof, FULL_ACCESS)
        return parse_qs(urlsplit(location).query)["code"][0]

    async def post_token(
        self, client: OAuthClientInformationFull, **fields: str
    ) -> httpx2.Response:
        """Post to the token endpoint with the client's own credentials."""
        credentials = {"client_id": client.client_id}
        if client.client_secret:
            credentials["client_secret"] = client.client_secret
        return await self.http.post("/token", data=credentials | fields)

    async def exchange(
        self, client: OAuthClientInformationFull, code: str, /, **changes: str
    ) -> httpx2.Response:
        """Exchange an authorization code for tokens."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": REDIRECT_URI,
            "code_verifier": CODE_VERIFIER,
        }
        return await self.post_token(client, **(fields | changes))

    async def refresh(
        self, client: OAuthClientInformationFull, token: str | None, **changes: str
    ) -> httpx2.Response:
        """Exchange a refresh token for new tokens."""
        fields = {"grant_type": "refresh_token", "refresh_token": token or ""}
        return await self.post_token(client, **(fields | changes))

    async def sign_in(
        self, client: OAuthClientInformationFull, proof: Proof = GOOGLE_PROOF
    ) -> OAuthToken:
        """Return the tokens of a program after a person approved it."""
        return parse_tokens(
            await self.exchange(client, await self.issue_code(client.client_id, proof))
        )

    async def accepts_token(self, access_token: str) -> bool:
        """Return whether calls with this access token are accepted."""
        token = self.access.tokens.verify(access_token)
        account = await self.store.accounts.get(token.user_id)
        return account.accepts(token.issued_at, token.grant_id)

    async def read_documents(self, collection: str) -> list[dict[str, Any]]:
        """Return all documents of a collection."""
        stream = self.access.connection.client.collection(collection).stream()
        return [{"id": snapshot.id, **(snapshot.to_dict() or {})} async for snapshot in stream]


@asynccontextmanager
async def serve_authorization_server(
    project: str, *secrets: str, seconds: float = 10.0
) -> AsyncIterator[AuthorizationServer]:
    """Serve an authorization server with this project's database.

    Args:
        project: The Google Cloud project.
        secrets: The secrets that sign tokens, the newest first; by default, one secret.
        seconds: The time limit of a request.
    """
    access_secrets = [SecretStr(secret) for secret in secrets or ["s" * 32]]
    settings = Settings(
        google_cloud_project=project,
        public_url=ISSUER,
        access_secrets=access_secrets,
        trusted_proxies=0,
    )
    clock = SettableClock(NOON)
    server = AuthorizationServer(Access(settings, clock), clock, timeout=seconds)
    async with server.http:
        yield server
    await server.access.connection.aclose()


def make_authorization_parameters(client_id: str, **changes: str | None) -> dict[str, str]:
    """Return the parameters of a valid authorization request.

    The `changes` override the defaults; None omits a parameter.
    """
    parameters = {
        "client_id": client_id,
        "redirect_uri": REDIRECT_URI,
        "response_type": "code",
        "scope": "carrel:read carrel:write",
        "state": "a state",
        "code_challenge": compute_challenge(CODE_VERIFIER),
        "code_challenge_method": "S256",
        "resource": RESOURCE,
    } | changes
    return {name: value for name, value in parameters.items() if value is not None}


def compute_challenge(verifier: str) -> str:
    """Return the PKCE code challenge of a verifier, by the method S256."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64url_encode(digest).decode()


def parse_tokens(answer: httpx2.Response) -> OAuthToken:
    """Parse the tokens of a response as the official client does."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return OAuthToken.model_validate_json(answer.content)


def parse_error(answer: httpx2.Response) -> tuple[int, str]:
    """Return the HTTP status and the error code of a response that has only standard fields."""
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) <= {"error", "error_description", "state"}
    return answer.status_code, answer.json()["error"]


def parse_query(location: str) -> dict[str, str]:
    """Return the parameters in the query of a URL."""
    return {name: value for name, [value] in parse_qs(urlsplit(location).query).items()}


def make_corrupted_tokens(text: str) -> Iterator[str]:
    """Yield wrong variants of a token: with one character changed, truncated, and extended."""
    for index, character in enumerate(text):
        yield f"{text[:index]}{'a' if character != 'a' else 'b'}{text[index + 1 :]}"
    yield from (text[:-1], text[1:], f"{text}a", f"{text}.", f" {text}", f"{text}\n", "", ".")

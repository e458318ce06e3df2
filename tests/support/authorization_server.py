"""An authorization server for tests, its programs' requests, and a person who approves."""

from __future__ import annotations

import base64
import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import SecretStr
from starlette.applications import Starlette

from functions.gateway.access import Access
from functions.gateway.oauth.authorization import Approvals, unseal
from functions.gateway.oauth.routes import program_routes
from shared.accounts.grant import Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.clock import SettableClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from functions.gateway.oauth.authorization import AuthorizationRequest

ISSUER: Final = "https://carrel.example"
RESOURCE: Final = f"{ISSUER}/mcp"
REDIRECT: Final = "https://program.example/back"
VERIFIER: Final = "v" * 43
NOON: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERSON: Final = Proof(user_id="ada@example.com", kind="google", email="ada@example.com")


@dataclass
class Documents:
    """Clients with a document, and an error where documents cannot be had."""

    known: dict[str, OAuthClientMetadata] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """The client with this id."""
        self.asked.append(client_id)
        if self.error:
            raise self.error
        return self.known.get(client_id)

    def add(self, client_id: str, *redirect_uris: str) -> str:
        """Let somebody publish one."""
        document = {"client_name": "Published", "redirect_uris": redirect_uris}
        self.known[client_id] = OAuthClientMetadata.model_validate(document)
        return client_id


@dataclass
class Limit:
    """Counts tries, and refuses them with an error once there is one."""

    tries: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def __call__(self, address: str) -> None:
        """Count one."""
        self.tries.append(address)
        if self.error:
            raise self.error


@dataclass
class AuthorizationServer:
    """An authorization server with its database, and programs that use it.

    Attributes:
        access: The real thing.
        http: A program's connection.
        time: What time it is here.
        documents: Published clients.
        limit: How often anybody registers.
        banned: E-mail addresses that may no longer sign in.
        error: What goes wrong when it is asked who may.
        timeout: Seconds for a request.
    """

    access: Access
    time: SettableClock
    documents: Documents = field(default_factory=Documents)
    limit: Limit = field(default_factory=Limit)
    banned: set[str | None] = field(default_factory=set)
    error: Exception | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        """Serve its endpoints."""
        self.app = Starlette(
            routes=program_routes(
                self.access, self.documents, self.still_allowed, self.limit, timeout=self.timeout
            )
        )
        transport = httpx2.ASGITransport(self.app, client=("1.2.3.4", 5))
        self.http = httpx2.AsyncClient(transport=transport, base_url=ISSUER)

    @property
    def store(self) -> AccessStore:
        """What is stored."""
        return AccessStore(self.access.connection)

    @property
    def approvals(self) -> Approvals:
        """Who makes codes."""
        keyring, connection = self.access.keyring, self.access.connection
        return Approvals(keyring, connection, ISSUER, self.time)

    def still_allowed(self, proof: Proof) -> bool:
        """Whether somebody may still sign in."""
        if self.error:
            raise self.error
        return proof.email not in self.banned

    async def register(self, **metadata: Any) -> OAuthClientInformationFull:
        """Register a program, and read the answer as the official client does."""
        body = {"client_name": "Program", "redirect_uris": [REDIRECT]} | metadata
        answer = await self.http.post("/register", json=body)
        assert (201, "no-store") == (answer.status_code, answer.headers["cache-control"])
        return OAuthClientInformationFull.model_validate_json(answer.content)

    async def authorize(self, client_id: str, **changes: str | None) -> httpx2.Response:
        """Ask for authorization as a browser does; None leaves a parameter out."""
        return await self.http.get("/authorize", params=asking(client_id, **changes))

    async def asked(self, client_id: str, **changes: str | None) -> AuthorizationRequest:
        """What the person is asked, when a program asks for authorization."""
        answer = await self.authorize(client_id, **changes)
        assert 302 == answer.status_code, answer.text
        page = urlsplit(answer.headers["location"])
        assert f"{ISSUER}/consent" == f"{page.scheme}://{page.netloc}{page.path}"
        sealed = parse_qs(page.query)["request"][0]
        return unseal(self.access.keyring, sealed, self.time)

    async def code(self, client_id: str, proof: Proof = PERSON, **changes: str | None) -> str:
        """The code that a program gets when the person approves."""
        request = await self.asked(client_id, **changes)
        location = await self.approvals.approve(request, proof, FULL_ACCESS)
        return parse_qs(urlsplit(location).query)["code"][0]

    async def token(self, client: OAuthClientInformationFull, **fields: str) -> httpx2.Response:
        """Ask the token endpoint, with the client's own credentials."""
        mine = {"client_id": client.client_id}
        if client.client_secret:
            mine["client_secret"] = client.client_secret
        return await self.http.post("/token", data=mine | fields)

    async def exchange(
        self, client: OAuthClientInformationFull, code: str, /, **changes: str
    ) -> httpx2.Response:
        """Bring a code."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": REDIRECT,
            "code_verifier": VERIFIER,
        }
        return await self.token(client, **(fields | changes))

    async def refresh(
        self, client: OAuthClientInformationFull, token: str | None, **changes: str
    ) -> httpx2.Response:
        """Bring a refresh token."""
        fields = {"grant_type": "refresh_token", "refresh_token": token or ""}
        return await self.token(client, **(fields | changes))

    async def signed_in(
        self, client: OAuthClientInformationFull, proof: Proof = PERSON
    ) -> OAuthToken:
        """The tokens of a program whose person approved."""
        return tokens_in(await self.exchange(client, await self.code(client.client_id, proof)))

    async def lets_in(self, access_token: str) -> bool:
        """Whether calls with this token are answered."""
        token = self.access.tokens.read(access_token)
        account = await self.store.accounts.get(token.user_id)
        return account.accepts(token.made_at, token.grant_id)

    async def documents_of(self, collection: str) -> list[dict[str, Any]]:
        """All that is stored in a collection."""
        stream = self.access.connection.client.collection(collection).stream()
        return [{"id": seen.id, **(seen.to_dict() or {})} async for seen in stream]


@asynccontextmanager
async def authorization_server(
    project: str, *secrets: str, seconds: float = 10.0
) -> AsyncIterator[AuthorizationServer]:
    """A server with a database of its own."""
    kept = [SecretStr(secret) for secret in secrets or ["s" * 32]]
    settings = Settings(
        google_cloud_project=project, public_url=ISSUER, access_secrets=kept, trusted_proxies=0
    )
    time = SettableClock(NOON)
    opened = AuthorizationServer(Access(settings, time), time, timeout=seconds)
    async with opened.http:
        yield opened
    await opened.access.connection.aclose()


def asking(client_id: str, **changes: str | None) -> dict[str, str]:
    """The parameters of an authorization request."""
    parameters = {
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "response_type": "code",
        "scope": "carrel:read carrel:write",
        "state": "a state",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
        "resource": RESOURCE,
    } | changes
    return {name: value for name, value in parameters.items() if value is not None}


def challenge(verifier: str) -> str:
    """What a verifier hashes to."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def tokens_in(answer: httpx2.Response) -> OAuthToken:
    """The tokens of an answer, read as the official client does."""
    assert 200 == answer.status_code, answer.text
    assert "no-store" == answer.headers["cache-control"]
    return OAuthToken.model_validate_json(answer.content)


def error_in(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the code of an answer that is an error and tells no more than that."""
    assert "no-store" == answer.headers["cache-control"]
    assert set(answer.json()) <= {"error", "error_description", "state"}
    return answer.status_code, answer.json()["error"]


def query_of(location: str) -> dict[str, str]:
    """What an address carries in its query."""
    return {name: value for name, [value] in parse_qs(urlsplit(location).query).items()}


def corrupted(text: str) -> Iterator[str]:
    """The same text with one character changed, at each place; and cut, and extended."""
    for place, each in enumerate(text):
        yield f"{text[:place]}{'a' if each != 'a' else 'b'}{text[place + 1 :]}"
    yield from (text[:-1], text[1:], f"{text}a", f"{text}.", f" {text}", f"{text}\n", "", ".")

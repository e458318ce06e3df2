"""The sign-in pages without the rest of the gateway, in the test's own process.

A test can set their clock and rate limit, and read their database.
"""

import re
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Final
from urllib.parse import quote

import httpx2
from pydantic import SecretStr
from starlette.applications import Starlette

from functions.gateway.auth.access_tokens import AccessTokens
from functions.gateway.auth.callers import Callers
from functions.gateway.auth.public_url import get_issuer_url, get_resource_url
from functions.gateway.oauth.authorization import Approvals, AuthorizationRequest, seal
from functions.gateway.oauth.consent import Consent
from functions.gateway.oauth.google import GoogleSignIn
from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.errors import RateLimited
from shared.core.settings import ACCESS_DATABASE, Settings
from shared.firestore.connection import Connection
from tests.support.clock import SettableClock

SECRET: Final = "a secret of tests, long enough to sign"
"""The secret of the keyring."""
USER: Final = "ada@example.com"
"""The user whose keys `make_key` creates."""
REQUEST: Final = AuthorizationRequest(
    client_id="client-1",
    client_name="Claude",
    redirect_uri="https://claude.example/callback",
    redirect_uri_given=True,
    scopes=FULL_ACCESS,
    state="client's own",
    code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
)
"""A valid authorization request, as the consent page receives it."""
_HIDDEN_FIELD: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


@dataclass
class FakeSignInLimit:
    """A rate limit of sign-in attempts that counts in memory.

    Attributes:
        attempts: The network addresses of the attempts.
        max_attempts: The number of attempts that are allowed.
    """

    attempts: list[str] = field(default_factory=list)
    max_attempts: int = 1_000

    async def __call__(self, address: str) -> None:
        """Count an attempt."""
        self.attempts.append(address)
        if len(self.attempts) > self.max_attempts:
            raise RateLimited("Too many attempts. Wait a minute.", retry_after=60)


class SignInApp:
    """The sign-in pages and the services behind them.

    Attributes:
        settings: The gateway's settings.
        keyring: The gateway's keyring.
        connection: The connection to the database `access`.
        clock: The clock of all services. A test may set it.
        sign_in_limit: The rate limit of attempts to sign in. A test may lower it.
        app: The ASGI app with the pages.
    """

    def __init__(self, settings: Settings) -> None:
        """Assemble the pages as the gateway does."""
        self.settings = settings
        self.keyring = Keyring([SecretStr(SECRET)])
        self.connection = Connection(settings.google_cloud_project, ACCESS_DATABASE)
        self.clock = SettableClock()
        self.sign_in_limit = FakeSignInLimit()
        issuer = get_issuer_url(settings)
        tokens = AccessTokens(self.keyring, issuer, get_resource_url(settings), self.clock)
        google = (
            GoogleSignIn(settings, self.keyring, self.clock) if settings.google_client_id else None
        )
        consent = Consent(
            settings=settings,
            keyring=self.keyring,
            callers=Callers(settings, self.keyring, tokens, self.connection, self.clock),
            approvals=Approvals(self.keyring, self.connection, issuer, self.clock),
            clock=self.clock,
            login_limit=self.sign_in_limit,
            google=google,
        )
        self.app = Starlette(routes=consent.routes())

    def make_client(self) -> httpx2.AsyncClient:
        """Make a client that stores cookies and does not follow redirects."""
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app), base_url=get_issuer_url(self.settings)
        )

    def seal_request(self, request: AuthorizationRequest = REQUEST) -> str:
        """Sign a request, as the consent page expects it in its URL."""
        return seal(self.keyring, request, self.clock)

    def make_consent_target(self, request: AuthorizationRequest = REQUEST) -> str:
        """Return the path and query of the consent page for a request."""
        return f"/consent?request={quote(self.seal_request(request))}"

    def make_consent_url(self, request: AuthorizationRequest = REQUEST) -> str:
        """Return the URL of the consent page for a request."""
        return get_issuer_url(self.settings) + self.make_consent_target(request)

    async def make_key(self, scopes: frozenset[Scope] = FULL_ACCESS) -> tuple[str, str]:
        """Create a key for `USER`, and return its text and its id."""
        text, key = new_key(self.keyring, USER, "a key", scopes, created_at=self.clock())
        await AccessStore(self.connection).keys.add(key)
        return text, key.key_id

    async def count_grants(self) -> int:
        """Count the stored grants."""
        snapshots = self.connection.client.collection("oauth_grants").stream()
        return len([snapshot async for snapshot in snapshots])


def parse_hidden_fields(page: httpx2.Response) -> dict[str, str]:
    """Return the values of the hidden fields of a page's form, by name."""
    return {name: unescape(value) for name, value in _HIDDEN_FIELD.findall(page.text)}


def make_authorization_request(**changes: object) -> AuthorizationRequest:
    """Return `REQUEST` with some fields changed."""
    return replace(REQUEST, **changes)  # type: ignore[arg-type]  # the test chooses their types

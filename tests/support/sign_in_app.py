"""Sign-in without the rest of the gateway: its pages, over a database of one's own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from html import unescape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httpx2
from pydantic import SecretStr
from starlette.applications import Starlette

from functions.gateway.auth.access_tokens import AccessTokens
from functions.gateway.auth.callers import Callers
from functions.gateway.auth.public_url import issuer_of, resource_of
from functions.gateway.oauth.authorization import Approvals, AuthorizationRequest, seal
from functions.gateway.oauth.consent import Consent
from functions.gateway.oauth.google import GoogleSignIn
from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.core.errors import RateLimited
from shared.firestore.database import Connection
from tests.support.clock import SettableClock

if TYPE_CHECKING:
    from shared.core.settings import Settings

SECRET: Final = "a secret that only this test has: 32"
USER: Final = "ada@example.com"
ASKED: Final = AuthorizationRequest(
    client_id="client-1",
    client_name="Claude",
    redirect_uri="https://claude.example/callback",
    redirect_uri_given=True,
    scopes=FULL_ACCESS,
    state="client's own",
    code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
)
"""What a well-behaved program asks for."""
_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


@dataclass
class TriesByAddress:
    """Counts tries to sign in.

    Attributes:
        seen: From where they came.
        most: How many there may be.
    """

    seen: list[str] = field(default_factory=list)
    most: int = 1_000

    async def __call__(self, address: str) -> None:
        """Count one."""
        self.seen.append(address)
        if len(self.seen) > self.most:
            raise RateLimited("Too many tries. Wait a minute.", retry_after=60)


class SignInApp:
    """The pages of sign-in, with what they stand on.

    Attributes:
        settings: As the gateway has them.
        keyring: As the gateway has it.
        access: The database, for the event loop that answers.
        clock: To be turned.
        tries: To be limited.
        app: The pages.
    """

    def __init__(self, settings: Settings) -> None:
        """Put the pages together as the gateway does."""
        self.settings = settings
        self.keyring = Keyring([SecretStr(SECRET)])
        self.access = Connection(settings.google_cloud_project, settings.access_database)
        self.clock = SettableClock()
        self.tries = TriesByAddress()
        issuer, resource = issuer_of(settings), resource_of(settings)
        tokens = AccessTokens(self.keyring, issuer, resource, self.clock)
        by_google = bool(settings.google_client_id)
        google = GoogleSignIn(settings, self.keyring, self.clock) if by_google else None
        consent = Consent(
            settings=settings,
            keyring=self.keyring,
            callers=Callers(settings, self.keyring, tokens, self.access, self.clock),
            approvals=Approvals(self.keyring, self.access, issuer, self.clock),
            clock=self.clock,
            login_limit=self.tries,
            google=google,
        )
        self.app = Starlette(routes=consent.routes())

    def client(self) -> httpx2.AsyncClient:
        """A browser without eyes: it keeps cookies, and follows nothing."""
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app), base_url=issuer_of(self.settings)
        )

    def sealed(self, asked: AuthorizationRequest = ASKED) -> str:
        """What stands in the address of the consent page."""
        return seal(self.keyring, asked, self.clock)

    def address(self, asked: AuthorizationRequest = ASKED) -> str:
        """The consent page's address, below the public one."""
        return f"/consent?request={quote(self.sealed(asked))}"

    def url(self, asked: AuthorizationRequest = ASKED) -> str:
        """The consent page's address."""
        return issuer_of(self.settings) + self.address(asked)

    async def make_key(self, scopes: frozenset[Scope] = FULL_ACCESS) -> tuple[str, str]:
        """A key of `USER`: its text and its id."""
        text, key = new_key(self.keyring, USER, "a key", scopes, created_at=self.clock())
        await AccessStore(self.access).keys.add(key)
        return text, key.key_id

    async def grants(self) -> int:
        """How many grants there are."""
        snapshots = AccessStore(self.access).database.collection("oauth_grants").stream()
        return len([each async for each in snapshots])


def hidden_in(page: httpx2.Response) -> dict[str, str]:
    """The hidden fields of a page's form."""
    return {name: unescape(value) for name, value in _HIDDEN.findall(page.text)}


def asking(**changed: object) -> AuthorizationRequest:
    """What a program asks for that is in some way different."""
    return replace(ASKED, **changed)  # type: ignore[arg-type]  # as given

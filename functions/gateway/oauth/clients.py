"""Programs find their way in by themselves: by registering, or by a document at their own URL."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from mcp.server.auth.provider import RegistrationError

from functions.gateway.oauth.client import ALL_SCOPES, IN_FORM, PUBLIC, Client
from functions.gateway.oauth.redirects import LONGEST, allowed
from functions.gateway.oauth.tickets import client_id_of, client_secret_of, is_client_id
from shared.accounts.grant import UNUSED_LIFETIME, USED_LIFETIME, OAuthClient
from shared.accounts.repositories.access_store import AccessStore

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

MOST_REDIRECTS: Final = 10
LONGEST_NAME: Final = 100
KEPT_EVERY: Final = timedelta(days=1)
"""How exact the end of a registration that is in use is known: each time costs a write."""


class Documents(Protocol):
    """Knows clients whose id is the URL of a document that describes them."""

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """The client with this id; None if no valid document says so.

        Raises:
            Unavailable: The document cannot be had now.
        """
        ...


class Clients(Protocol):
    """Knows programs."""

    async def get(self, client_id: str) -> Client | None:
        """The program with this id, if it is known and has not expired."""
        ...


class EveryClient:
    """Knows those that registered, and those that have a document."""

    def __init__(
        self, keyring: Keyring, access: Connection, clock: Clock, documents: Documents
    ) -> None:
        """Keep registrations through `access`."""
        self._keyring = keyring
        self._access = access
        self._clock = clock
        self._documents = documents

    async def get(self, client_id: str) -> Client | None:
        """The program with this id; an id that is none of ours costs no look into the database."""
        if has_document(client_id):
            return await self._documented(client_id)
        if not is_client_id(self._keyring, client_id):
            return None
        kept = await AccessStore(self._access).clients.get(client_id)
        if kept is None or self._clock() >= kept.expires_at:
            return None
        return Client.of(
            client_id,
            name=kept.name,
            redirect_uris=kept.redirect_uris,
            secret=client_secret_of(self._keyring, client_id) if kept.has_secret else None,
            expires_at=kept.expires_at,
        )

    async def register(self, client: OAuthClientInformationFull) -> None:
        """Keep a new program, and write into `client` what it is to be told.

        Its secret is derived from its id, and stored nowhere. It asked for this or that: what it
        gets is a public client or one with a secret in the form, and the grants that there are
        (RFC 7591, 3.2.1 lets us choose).

        Raises:
            RegistrationError: It asks for what nobody gets.
        """
        redirects = _checked_redirects([str(each) for each in client.redirect_uris or []])
        name = _checked_name(client.client_name)
        client.client_id = client_id_of(self._keyring, client.client_id)
        if client.token_endpoint_auth_method != PUBLIC:
            client.token_endpoint_auth_method = IN_FORM
            client.client_secret = client_secret_of(self._keyring, client.client_id)
        client.grant_types = ["authorization_code", "refresh_token"]
        client.response_types = ["code"]
        client.scope = " ".join(ALL_SCOPES)
        now = self._clock()
        kept = OAuthClient(
            client_id=client.client_id,
            name=name,
            redirect_uris=redirects,
            has_secret=client.client_secret is not None,
            created_at=now,
            expires_at=now + UNUSED_LIFETIME,
        )
        await AccessStore(self._access).clients.add(kept)

    async def used(self, client: Client) -> None:
        """Let the registration of a program that gets a token last."""
        until = self._clock() + USED_LIFETIME
        if client.expires_at and client.expires_at < until - KEPT_EVERY:
            await AccessStore(self._access).clients.keep_until(client.client_id, until)

    async def _documented(self, client_id: str) -> Client | None:
        document = await self._documents.get(client_id)
        if document is None:
            return None
        uris = [str(each) for each in document.redirect_uris or []]
        usable = [each for each in uris if allowed(each)]
        name = (document.client_name or "")[:LONGEST_NAME] or None
        return Client.of(client_id, name=name, redirect_uris=usable)


class AtTokenEndpoint:
    """Knows what it takes to exchange what a program was given before.

    There a document has nothing left to say: codes and tokens are bound to the id, and who has one
    of them has no secret. So a token costs no look at somebody else's server, which may be down.
    """

    def __init__(self, clients: EveryClient) -> None:
        """Know the registered ones through `clients`."""
        self._clients = clients

    async def get(self, client_id: str) -> Client | None:
        """The program with this id; if that is a URL, whatever its document says."""
        if has_document(client_id):
            return Client.of(client_id)
        return await self._clients.get(client_id)


class One:
    """Knows one program, which was looked up before."""

    def __init__(self, client: Client) -> None:
        """Know this one, whatever the id."""
        self._client = client

    async def get(self, client_id: str) -> Client | None:  # noqa: ARG002 - it was looked up by it
        """That program."""
        return self._client


def has_document(client_id: str) -> bool:
    """Whether a client's id is the address of its document."""
    return "://" in client_id


def _checked_redirects(uris: list[str]) -> tuple[str, ...]:
    if not 0 < len(uris) <= MOST_REDIRECTS or not all(map(allowed, uris)):
        raise RegistrationError(
            "invalid_redirect_uri",
            f"1 to {MOST_REDIRECTS} redirect_uris, each https, http on a loopback address or an"
            f" app's own scheme, without a fragment, up to {LONGEST} characters.",
        )
    return tuple(uris)


def _checked_name(name: str | None) -> str | None:
    if name and len(name) > LONGEST_NAME:
        raise RegistrationError(
            "invalid_client_metadata", f"client_name takes up to {LONGEST_NAME} characters."
        )
    return name

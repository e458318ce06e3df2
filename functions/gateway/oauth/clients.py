"""Programs that sign people in, in the SDK's terms: by registration, or by a document at a URL.

A client id and a client secret are signatures by the deployment's keyring, and the secret is not
stored, not even hashed. So an id that was not issued by this server costs no look into the
database, and a stolen database holds no secret.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from mcp.server.auth.provider import RegistrationError
from mcp.shared.auth import (
    InvalidRedirectUriError,
    InvalidScopeError,
    OAuthClientInformationFull,
)
from pydantic import AnyUrl, Field

from functions.gateway.oauth.redirect_uris import MAX_LENGTH, allowed, matches
from shared.accounts.grant import UNUSED_LIFETIME, USED_LIFETIME, OAuthClient
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope, with_implied_scopes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp.shared.auth import OAuthClientMetadata

    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

ALL_SCOPES: Final = sorted(FULL_ACCESS)
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
PUBLIC: Final = "none"
IN_FORM: Final = "client_secret_post"
"""The ways to authenticate at the token endpoint: not at all, or with a secret in the form."""
MAX_REDIRECT_URIS: Final = 10
MAX_NAME_LENGTH: Final = 100
EXTENDED_EVERY: Final = timedelta(days=1)
"""How exact the end of a registration that is in use is known: each time costs a write."""
_ID_PURPOSE: Final = "client id"
_SECRET_PURPOSE: Final = "client secret"  # noqa: S105 - what is signed for, and no secret
_ID: Final = re.compile(r"([0-9a-f-]{36})\.([A-Za-z0-9_-]{8})")
_CHECK_LENGTH: Final = 8
"""Characters of the signature at the end of a client id."""


class Client(OAuthClientInformationFull):
    """A client as it registered, or as its metadata document describes it.

    Attributes:
        expires_at: When its registration ends, unless it is used; None if it did not register.
    """

    expires_at: datetime | None = Field(default=None, exclude=True)

    @classmethod
    def of(
        cls,
        client_id: str,
        *,
        name: str | None = None,
        redirect_uris: Iterable[str] = (),
        secret: str | None = None,
        expires_at: datetime | None = None,
    ) -> Client:
        """A client with, or without, a secret."""
        return cls(
            client_id=client_id,
            client_name=name,
            redirect_uris=[AnyUrl(uri) for uri in redirect_uris],
            client_secret=secret,
            token_endpoint_auth_method=IN_FORM if secret else PUBLIC,
            expires_at=expires_at,
        )

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """The scopes to ask the person for: any of ours, and all of them if it named none.

        Raises:
            InvalidScopeError: There is no such scope here.
        """
        names = (requested_scope or "").split()
        if not set(names) <= FULL_ACCESS:
            raise InvalidScopeError(f"the scopes here are {' and '.join(ALL_SCOPES)}")
        return sorted(with_implied_scopes(frozenset(Scope(name) for name in names))) or [
            *ALL_SCOPES
        ]

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Where the answer goes: to the only address, or to the one that was asked for.

        Addresses are compared as URLs, of a loopback one all but the port (RFC 8252, 7.3).

        Raises:
            InvalidRedirectUriError: The client has no such address.
        """
        # The SDK parses them in two ways; parsed once more, `http://host` and `http://host/` agree.
        registered = [str(AnyUrl(str(uri))) for uri in self.redirect_uris or []]
        if redirect_uri is None and len(registered) == 1:
            return AnyUrl(registered[0])
        if redirect_uri is None or not matches(str(AnyUrl(str(redirect_uri))), registered):
            raise InvalidRedirectUriError("this redirect_uri is none of the client's")
        return redirect_uri


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


class ClientRegistry:
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
        """The program with this id."""
        if has_document(client_id):
            return await self._documented(client_id)
        if not is_client_id(self._keyring, client_id):
            return None
        registration = await AccessStore(self._access).clients.get(client_id)
        if registration is None or self._clock() >= registration.expires_at:
            return None
        has_secret = registration.has_secret
        return Client.of(
            client_id,
            name=registration.name,
            redirect_uris=registration.redirect_uris,
            secret=client_secret_of(self._keyring, client_id) if has_secret else None,
            expires_at=registration.expires_at,
        )

    async def register(self, client: OAuthClientInformationFull) -> None:
        """Keep a new program, and write into `client` what it is to be told.

        It asked for this or that: what it gets is a public client or one with a secret in the form,
        and the grants that there are (RFC 7591, 3.2.1 lets us choose).

        Raises:
            RegistrationError: It asks for what nobody gets.
        """
        redirect_uris = _checked_redirect_uris([str(uri) for uri in client.redirect_uris or []])
        name = _checked_name(client.client_name)
        client.client_id = client_id_of(self._keyring, client.client_id)
        if client.token_endpoint_auth_method != PUBLIC:
            client.token_endpoint_auth_method = IN_FORM
            client.client_secret = client_secret_of(self._keyring, client.client_id)
        client.grant_types = [*GRANT_TYPES]
        client.response_types = ["code"]
        client.scope = " ".join(ALL_SCOPES)
        now = self._clock()
        registration = OAuthClient(
            client_id=client.client_id,
            name=name,
            redirect_uris=redirect_uris,
            has_secret=client.client_secret is not None,
            created_at=now,
            expires_at=now + UNUSED_LIFETIME,
        )
        await AccessStore(self._access).clients.add(registration)

    async def used(self, client: Client) -> None:
        """Let the registration of a program that gets a token last."""
        until = self._clock() + USED_LIFETIME
        if client.expires_at and client.expires_at < until - EXTENDED_EVERY:
            await AccessStore(self._access).clients.keep_until(client.client_id, until)

    async def _documented(self, client_id: str) -> Client | None:
        document = await self._documents.get(client_id)
        if document is None:
            return None
        uris = [str(uri) for uri in document.redirect_uris or []]
        usable = [uri for uri in uris if allowed(uri)]
        name = (document.client_name or "")[:MAX_NAME_LENGTH] or None
        return Client.of(client_id, name=name, redirect_uris=usable)


class TokenEndpointClients:
    """Knows what it takes to exchange what a program was given before.

    There a document has nothing left to say: codes and tokens are bound to the id, and who has one
    of them has no secret. So a token costs no look at somebody else's server, which may be down.
    """

    def __init__(self, clients: ClientRegistry) -> None:
        """Know the registered ones through `clients`."""
        self._clients = clients

    async def get(self, client_id: str) -> Client | None:
        """The program with this id; if that is a URL, whatever its document says."""
        if has_document(client_id):
            return Client.of(client_id)
        return await self._clients.get(client_id)


class SingleClient:
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


def client_id_of(keyring: Keyring, name: str) -> str:
    """The id of a program that registers: a random UUID, checked by a signature."""
    return f"{name}.{keyring.sign(_ID_PURPOSE, name)[:_CHECK_LENGTH]}"


def is_client_id(keyring: Keyring, client_id: str) -> bool:
    """Whether we may have given this id to a program."""
    match = _ID.fullmatch(client_id)
    return bool(match and keyring.verifies(_ID_PURPOSE, match[1], match[2], length=_CHECK_LENGTH))


def client_secret_of(keyring: Keyring, client_id: str) -> str:
    """The secret of a program that registered."""
    return keyring.sign(_SECRET_PURPOSE, client_id)


def with_newest_secret(keyring: Keyring, parameters: dict[str, str]) -> dict[str, str]:
    """The parameters of a request, whose client secret, if it is valid, is as one of today.

    The SDK compares secrets with the one that it is given; but while the keyring's secrets rotate,
    older ones are valid too.
    """
    client_id, secret = parameters.get("client_id", ""), parameters.get("client_secret", "")
    if not keyring.verifies(_SECRET_PURPOSE, client_id, secret):
        return parameters
    return {**parameters, "client_secret": client_secret_of(keyring, client_id)}


def _checked_redirect_uris(uris: list[str]) -> tuple[str, ...]:
    if not 0 < len(uris) <= MAX_REDIRECT_URIS or not all(map(allowed, uris)):
        raise RegistrationError(
            "invalid_redirect_uri",
            f"1 to {MAX_REDIRECT_URIS} redirect_uris, each https, http on a loopback address or an"
            f" app's own scheme, without a fragment, up to {MAX_LENGTH} characters.",
        )
    return tuple(uris)


def _checked_name(name: str | None) -> str | None:
    if name and len(name) > MAX_NAME_LENGTH:
        raise RegistrationError(
            "invalid_client_metadata", f"client_name takes up to {MAX_NAME_LENGTH} characters."
        )
    return name

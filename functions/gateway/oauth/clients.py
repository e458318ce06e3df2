"""OAuth clients: programs that register, or that publish a metadata document at a URL.

The deployment's keyring signs client ids, and a client's secret is a signature of its id. So an id
that this server did not issue costs no database read, and secrets need not be stored: a stolen
database contains none, not even hashed.
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

from functions.gateway.oauth.redirect_uris import MAX_URI_LENGTH, is_registered, parse_redirect_uri
from shared.accounts.grant import UNUSED_LIFETIME, USED_LIFETIME, OAuthClient
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope, add_implied_scopes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp.shared.auth import OAuthClientMetadata

    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.connection import Connection

ALL_SCOPES: Final = sorted(FULL_ACCESS)
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
AUTH_METHOD_NONE: Final = "none"
"""The authentication method of public clients, which send no secret to the token endpoint."""
AUTH_METHOD_POST: Final = "client_secret_post"
"""The authentication method of confidential clients, which send their secret in the form."""
MAX_REDIRECT_URIS: Final = 10
"""The maximum number of redirect URIs of a client."""
MAX_NAME_LENGTH: Final = 100
"""The maximum length of a client's name, in characters."""
EXTENSION_INTERVAL: Final = timedelta(days=1)
"""The expiry of a used registration is extended at most once in this time, to save writes."""
_ID_PURPOSE: Final = "client id"
_SECRET_PURPOSE: Final = "client secret"  # noqa: S105 - a purpose of signatures, not a secret
_CHECKSUM_LENGTH: Final = 8
"""The length of the signature at the end of a client id."""
_CLIENT_ID_FORMAT: Final = re.compile(rf"([0-9a-f-]{{36}})\.([A-Za-z0-9_-]{{{_CHECKSUM_LENGTH}}})")


class Client(OAuthClientInformationFull):
    """A client as it registered, or as its metadata document describes it.

    Attributes:
        expires_at: When the registration expires if it is not used; None for a client with a
            metadata document.
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
        """Build a client. One without a secret is public."""
        return cls(
            client_id=client_id,
            client_name=name,
            redirect_uris=[AnyUrl(uri) for uri in redirect_uris],
            client_secret=secret,
            token_endpoint_auth_method=AUTH_METHOD_POST if secret else AUTH_METHOD_NONE,
            expires_at=expires_at,
        )

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """Return the requested scopes and those that they imply, or all if the client named none.

        Raises:
            InvalidScopeError: A requested scope does not exist.
        """
        names = (requested_scope or "").split()
        if not names:
            return [*ALL_SCOPES]
        if not set(names) <= FULL_ACCESS:
            raise InvalidScopeError(
                f"unknown scope; the available scopes are {', '.join(ALL_SCOPES)}"
            )
        return sorted(add_implied_scopes(frozenset(map(Scope, names))))

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Return the requested redirect URI; by default, the only one that the client registered.

        URIs are compared in normal form. The port of a loopback URI is ignored (RFC 8252, 7.3).

        Raises:
            InvalidRedirectUriError: The client did not register this URI, or named none although
                it did not register exactly one.
        """
        registered_uris = [_normalize_uri(uri) for uri in self.redirect_uris or []]
        if redirect_uri is None:
            if len(registered_uris) != 1:
                raise InvalidRedirectUriError(
                    "redirect_uri is missing; only a client that registered exactly one may omit it"
                )
            return AnyUrl(registered_uris[0])
        if is_registered(_normalize_uri(redirect_uri), registered_uris):
            return redirect_uri
        raise InvalidRedirectUriError("this redirect_uri is not registered for the client")


def _normalize_uri(uri: AnyUrl) -> str:
    """Parse a URI again, because the SDK does not normalize all of them when it parses a request.

    As a result, `http://host` and `http://host/` are equal.
    """
    return str(AnyUrl(str(uri)))


class MetadataDocumentLookup(Protocol):
    """Looks up the metadata documents of clients."""

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """Return the document at a URL, which is the client's id, or None if it is not valid.

        Raises:
            Unavailable: The document cannot be fetched now.
        """
        ...


class ClientRegistry:
    """Registered clients, and clients with a metadata document."""

    def __init__(
        self,
        keyring: Keyring,
        database: Connection,
        clock: Clock,
        documents: MetadataDocumentLookup,
    ) -> None:
        self._keyring = keyring
        self._database = database
        self._clock = clock
        self._documents = documents

    async def get(self, client_id: str) -> Client | None:
        """Return the client with this id, or None if it is unknown or has expired."""
        if is_document_url(client_id):
            return await self._get_by_document(client_id)
        if not is_issued_client_id(self._keyring, client_id):
            return None
        registration = await AccessStore(self._database).clients.get(client_id)
        if registration is None or self._clock() >= registration.expires_at:
            return None
        return Client.of(
            client_id,
            name=registration.name,
            redirect_uris=registration.redirect_uris,
            secret=(
                make_client_secret(self._keyring, client_id) if registration.has_secret else None
            ),
            expires_at=registration.expires_at,
        )

    async def register(self, client: OAuthClientInformationFull) -> None:
        """Register a client, and write the response's fields into `client`.

        A client is registered as public or with `client_secret_post`, and with all supported
        grants. Other requested values are replaced, which RFC 7591 (3.2.1) allows.

        Raises:
            RegistrationError: The client's redirect URIs or its name are not allowed.
        """
        redirect_uris = _validate_redirect_uris([str(uri) for uri in client.redirect_uris or []])
        name = _validate_name(client.client_name)
        # The SDK has filled in a random UUID.
        client.client_id = issue_client_id(self._keyring, uuid=client.client_id)
        if client.token_endpoint_auth_method != AUTH_METHOD_NONE:
            client.token_endpoint_auth_method = AUTH_METHOD_POST
            client.client_secret = make_client_secret(self._keyring, client.client_id)
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
        await AccessStore(self._database).clients.add(registration)

    async def extend(self, client: Client) -> None:
        """Extend the registration of a client that receives a token, at most once a day."""
        expires_at = self._clock() + USED_LIFETIME
        if client.expires_at and client.expires_at < expires_at - EXTENSION_INTERVAL:
            await AccessStore(self._database).clients.extend(client.client_id, expires_at)

    async def _get_by_document(self, client_id: str) -> Client | None:
        """Build a client from its metadata document.

        A redirect URI that is not allowed is skipped, and a long name is cut. A registration with
        them is rejected, but a document also serves other servers, with other limits.
        """
        document = await self._documents.get(client_id)
        if document is None:
            return None
        uris = [str(uri) for uri in document.redirect_uris or []]
        usable = [uri for uri in uris if parse_redirect_uri(uri)]
        name = (document.client_name or "")[:MAX_NAME_LENGTH] or None
        return Client.of(client_id, name=name, redirect_uris=usable)


async def find_at_token_endpoint(clients: ClientRegistry, client_id: str) -> Client | None:
    """Return the client with this id, or a public client without metadata for a URL.

    Codes and tokens are bound to the client id, and a client with a document has no secret. So the
    document is not fetched, and a token can be refreshed while the document's server is down.
    """
    return Client.of(client_id) if is_document_url(client_id) else await clients.get(client_id)


def is_document_url(client_id: str) -> bool:
    """Return whether a client id is the URL of a metadata document. No issued id contains `://`."""
    return "://" in client_id


def issue_client_id(keyring: Keyring, uuid: str) -> str:
    """Make a client id, which is a random UUID with a signature as its checksum."""
    return f"{uuid}.{keyring.sign(_ID_PURPOSE, uuid)[:_CHECKSUM_LENGTH]}"


def is_issued_client_id(keyring: Keyring, client_id: str) -> bool:
    """Return whether this server issued a client id."""
    match = _CLIENT_ID_FORMAT.fullmatch(client_id)
    return bool(match and keyring.verify(_ID_PURPOSE, match[1], match[2], length=_CHECKSUM_LENGTH))


def make_client_secret(keyring: Keyring, client_id: str) -> str:
    """Make the secret of a registered client."""
    return keyring.sign(_SECRET_PURPOSE, client_id)


def replace_rotated_secret(keyring: Keyring, parameters: dict[str, str]) -> dict[str, str]:
    """Replace a valid client secret in the parameters of a request with the newest one.

    The SDK accepts only one secret. After a rotation of the keyring, clients still send secrets
    that were made with its previous keys.
    """
    client_id, secret = parameters.get("client_id", ""), parameters.get("client_secret", "")
    if not keyring.verify(_SECRET_PURPOSE, client_id, secret):
        return parameters
    return {**parameters, "client_secret": make_client_secret(keyring, client_id)}


def _validate_redirect_uris(uris: list[str]) -> tuple[str, ...]:
    """Return the redirect URIs of a registration.

    Raises:
        RegistrationError: One is not allowed, or there are none or too many.
    """
    has_valid_count = 0 < len(uris) <= MAX_REDIRECT_URIS
    if not has_valid_count or not all(map(parse_redirect_uri, uris)):
        raise RegistrationError(
            "invalid_redirect_uri",
            f"redirect_uris must list 1 to {MAX_REDIRECT_URIS} URIs of at most {MAX_URI_LENGTH}"
            " characters. Each must use https, http on a loopback address, or an app's own scheme,"
            " and must have no fragment.",
        )
    return tuple(uris)


def _validate_name(name: str | None) -> str | None:
    """Return the name of a registration, or None if it has none.

    Raises:
        RegistrationError: The name is too long.
    """
    if name and len(name) > MAX_NAME_LENGTH:
        raise RegistrationError(
            "invalid_client_metadata", f"client_name may have up to {MAX_NAME_LENGTH} characters."
        )
    return name

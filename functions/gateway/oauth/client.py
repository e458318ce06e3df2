"""A program that signs people in, as the SDK's handlers want to know it."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic needs it when the model is made
from typing import TYPE_CHECKING, Final

from mcp.shared.auth import (
    InvalidRedirectUriError,
    InvalidScopeError,
    OAuthClientInformationFull,
)
from pydantic import AnyUrl, Field

from functions.gateway.oauth.redirects import matches
from shared.core.caller import EVERYTHING, Scope, implied

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL_SCOPES: Final = sorted(EVERYTHING)
PUBLIC: Final = "none"
IN_FORM: Final = "client_secret_post"
"""The ways to authenticate at the token endpoint: not at all, or with a secret in the form."""


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
            redirect_uris=[AnyUrl(each) for each in redirect_uris],
            client_secret=secret,
            token_endpoint_auth_method=IN_FORM if secret else PUBLIC,
            expires_at=expires_at,
        )

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """The scopes to ask the person for: any of ours, and all of them if it named none.

        Raises:
            InvalidScopeError: One is none of ours.
        """
        asked = (requested_scope or "").split()
        if not set(asked) <= EVERYTHING:
            raise InvalidScopeError(f"the scopes here are {' and '.join(ALL_SCOPES)}")
        return sorted(implied(frozenset(Scope(each) for each in asked))) or [*ALL_SCOPES]

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Where the answer goes: to the only address, or to the one that was asked for.

        Addresses are compared as URLs, of a loopback one all but the port (RFC 8252, 7.3).

        Raises:
            InvalidRedirectUriError: It is none of the client's.
        """
        # The SDK parses them in two ways; parsed once more, `http://host` and `http://host/` agree.
        known = [str(AnyUrl(str(each))) for each in self.redirect_uris or []]
        if redirect_uri is None and len(known) == 1:
            return AnyUrl(known[0])
        if redirect_uri is None or not matches(str(AnyUrl(str(redirect_uri))), known):
            raise InvalidRedirectUriError("this redirect_uri is none of the client's")
        return redirect_uri

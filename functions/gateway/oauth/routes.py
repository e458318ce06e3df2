"""Carrel as its own OAuth 2.1 authorization server: everything but the pages that people see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mcp.server.auth.routes import (
    AUTHORIZATION_PATH,
    REGISTRATION_PATH,
    REVOCATION_PATH,
    TOKEN_PATH,
    cors_middleware,
)
from starlette.routing import Route, request_response

from functions.gateway.auth.public_url import issuer_of, resource_of
from functions.gateway.oauth.authorize import Authorize, tell
from functions.gateway.oauth.clients import AtTokenEndpoint, EveryClient
from functions.gateway.oauth.exchange import Exchange
from functions.gateway.oauth.failing import ANSWER_SECONDS, guarded
from functions.gateway.oauth.forms import bounded
from functions.gateway.oauth.metadata import metadata_routes
from functions.gateway.oauth.provider import Provider
from functions.gateway.oauth.registration import Registration
from functions.gateway.oauth.revocation import Revocation
from functions.gateway.oauth.sign_ins import SignIns

if TYPE_CHECKING:
    from functions.gateway.access import Access
    from functions.gateway.oauth.authorize import AddressLimit
    from functions.gateway.oauth.clients import Documents
    from functions.gateway.oauth.failing import Handle
    from functions.gateway.oauth.sign_ins import StillAllowed

_GET_OR_POST: Final = ["GET", "POST"]
_POST: Final = ["POST", "OPTIONS"]


def routes(
    access: Access,
    documents: Documents,
    still_allowed: StillAllowed,
    register_limit: AddressLimit,
    *,
    seconds: float = ANSWER_SECONDS,
) -> list[Route]:
    """The endpoints that programs use, and what they read of them.

    Args:
        access: The public address, the keyring, the tokens, the database and the clock.
        documents: Knows clients whose id is the URL of their document.
        still_allowed: Whether somebody who signed in with Google may still do so.
        register_limit: Is told the network address of whoever registers a client, or has us look at
            one's document.
        seconds: How long an answer may take.
    """
    clients = EveryClient(access.keyring, access.connection, access.clock, documents)
    provider = Provider(
        issuer=issuer_of(access.settings),
        resource=resource_of(access.settings),
        keyring=access.keyring,
        clock=access.clock,
        clients=clients,
        registry=clients,
        sign_ins=SignIns(
            access.keyring, access.tokens, access.connection, access.clock, still_allowed
        ),
    )
    trusted_proxies = access.settings.proxies
    for_tokens = replace(provider, clients=AtTokenEndpoint(clients))
    authorize = Authorize(provider, register_limit, trusted_proxies)
    registration = Registration(provider, register_limit, trusted_proxies)
    ask = bounded(request_response(guarded(authorize.handle, seconds, tell)))
    return [
        *metadata_routes(provider.issuer, provider.resource),
        # Without CORS: a browser goes there, no script does.
        Route(AUTHORIZATION_PATH, ask, methods=_GET_OR_POST),
        _endpoint(TOKEN_PATH, guarded(Exchange(for_tokens).handle, seconds)),
        _endpoint(REGISTRATION_PATH, guarded(registration.handle, seconds)),
        _endpoint(REVOCATION_PATH, guarded(Revocation(for_tokens).handle, seconds)),
    ]


def _endpoint(path: str, handle: Handle) -> Route:
    return Route(path, bounded(cors_middleware(handle, _POST)), methods=_POST)

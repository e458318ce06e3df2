"""Carrel as its own OAuth 2.1 authorization server: every path, and what answers there.

The SDK's handlers do the work of `/authorize`, `/token` and `/register`; here is what they leave
out. `/revoke` is ours, for theirs refuses public clients.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.routes import (
    AUTHORIZATION_PATH,
    REGISTRATION_PATH,
    REVOCATION_PATH,
    TOKEN_PATH,
    cors_middleware,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.responses import Response
from starlette.routing import Route, request_response

from functions.gateway.auth.client_address import client_address
from functions.gateway.auth.public_url import issuer_of, resource_of
from functions.gateway.oauth.authorization import CONSENT_PATH, Approvals
from functions.gateway.oauth.client_id_metadata import ClientDocuments
from functions.gateway.oauth.clients import (
    GRANT_TYPES,
    ClientRegistry,
    SingleClient,
    TokenEndpointClients,
    has_document,
    with_newest_secret,
)
from functions.gateway.oauth.consent import Consent
from functions.gateway.oauth.consent_page import message_page
from functions.gateway.oauth.google import Google
from functions.gateway.oauth.http import (
    NO_STORE,
    RESPONSE_SECONDS,
    bounded,
    guarded,
    oauth_error,
    oauth_error_response,
    parameters_of,
    with_form,
    with_query,
)
from functions.gateway.oauth.metadata import metadata_routes
from functions.gateway.oauth.provider import Provider, SignIns, is_our_resource
from functions.gateway.oauth.redirect_uris import redirect_with
from functions.gateway.rate_limits import LOGINS, REGISTRATIONS
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.access import Access
    from functions.gateway.oauth.clients import Documents
    from functions.gateway.oauth.http import Handler
    from functions.gateway.oauth.provider import StillAllowed
    from functions.gateway.rate_limits import AddressLimit
    from shared.accounts.grant import Proof
    from shared.core.errors import CarrelError

_GET_OR_POST: Final = ["GET", "POST"]
_POST: Final = ["POST", "OPTIONS"]
_DEFAULT_CHALLENGE_METHOD: Final = "plain"
"""What a client means that names no `code_challenge_method` (RFC 7636, 4.3); it is refused."""
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_UNKNOWN_CLIENT: Final = (
    "This server does not know the program that sent you, or not any more. In the program, remove"
    " Carrel and add it again."
)


def sign_in_routes(access: Access) -> list[Route]:
    """The endpoints of programs, and the pages of people."""
    settings, keyring, clock = access.settings, access.keyring, access.clock
    google = Google(settings, keyring, clock) if settings.google_client_id else None
    consent = Consent(
        settings=settings,
        keyring=keyring,
        callers=access.callers,
        approvals=Approvals(keyring, access.connection, issuer_of(settings), clock),
        clock=clock,
        login_limit=partial(access.limits.take_for, LOGINS),
        google=google,
    )
    still_allowed = google.still_allowed if google else _nobody
    register_limit = partial(access.limits.take_for, REGISTRATIONS)
    return [
        *program_routes(access, ClientDocuments(clock=clock), still_allowed, register_limit),
        *consent.routes(),
    ]


def program_routes(
    access: Access,
    documents: Documents,
    still_allowed: StillAllowed,
    register_limit: AddressLimit,
    *,
    seconds: float = RESPONSE_SECONDS,
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
    clients = ClientRegistry(access.keyring, access.connection, access.clock, documents)
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
    for_tokens = replace(provider, clients=TokenEndpointClients(clients))
    authorize = _Authorize(provider, register_limit, access.settings.proxy_count)
    register = _Register(provider, register_limit, access.settings.proxy_count)
    return [
        *metadata_routes(provider.issuer, provider.resource),
        # Without CORS: a browser goes there, no script does.
        Route(
            AUTHORIZATION_PATH,
            bounded(request_response(guarded(authorize.handle, seconds, _authorize_error))),
            methods=_GET_OR_POST,
        ),
        _endpoint(TOKEN_PATH, guarded(_Token(for_tokens).handle, seconds)),
        _endpoint(REGISTRATION_PATH, guarded(register.handle, seconds)),
        _endpoint(REVOCATION_PATH, guarded(_Revoke(for_tokens).handle, seconds)),
    ]


def _endpoint(path: str, handler: Handler) -> Route:
    return Route(path, bounded(cors_middleware(handler, _POST)), methods=_POST)


def _nobody(_proof: Proof) -> bool:
    """Where there is no sign-in with Google, nobody stays signed in by it."""
    return False


class _Authorize:
    """`/authorize`: sends a person's browser to the consent page, or back.

    An error that goes back to the program says whose error it is (RFC 9207), and one that cannot
    goes to the person, in words, if a browser asks.
    """

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        """Ask this provider; `limit` counts those who have us look up a client's document."""
        self._provider = provider
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a request of a person's browser.

        Raises:
            CarrelError: There is nowhere to send the browser with what is wrong.
        """
        parameters = await parameters_of(request)
        parameters = {"code_challenge_method": _DEFAULT_CHALLENGE_METHOD, **parameters}
        client_id = parameters.get("client_id", "")
        if has_document(client_id):
            await self._limit(client_address(request.scope, self._trusted_proxies))
        # Looked up here, so that the SDK has no failure to log, whose words may be anybody's.
        client = await self._provider.get_client(client_id)
        if client is None:
            raise InvalidInput(_UNKNOWN_CLIENT)
        handler = AuthorizationHandler(replace(self._provider, clients=SingleClient(client)))
        response = await handler.handle(with_query(request, parameters))
        location = response.headers.get("location")
        if location is None:
            raise InvalidInput(json.loads(bytes(response.body))["error_description"])
        if not location.startswith(f"{self._provider.issuer}{CONSENT_PATH}?"):
            one_line = location.replace("%0A", "+")  # RFC 6749 allows no new line in a description
            response.headers["location"] = redirect_with(one_line, iss=self._provider.issuer)
        return response


def _authorize_error(request: Request, error: CarrelError) -> Response:
    """Say what is wrong: to a person in words, if a browser asks."""
    if "text/html" in request.headers.get("accept", ""):
        title = "right now" if error.retry_after else "this way"
        return message_page(f"You cannot sign in {title}", error)
    return oauth_error_response(request, error)


class _Token:
    """`/token`: exchanges codes and refresh tokens for tokens."""

    def __init__(self, provider: Provider) -> None:
        """Ask this provider."""
        self._provider = provider
        self._handler = TokenHandler(provider, ClientAuthenticator(provider))

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        parameters = await parameters_of(request)
        if parameters.get("grant_type", GRANT_TYPES[0]) not in GRANT_TYPES:
            supported = " and ".join(GRANT_TYPES)
            return oauth_error(400, "unsupported_grant_type", f"There are {supported}.")
        resource = self._provider.resource
        if not is_our_resource(parameters.get("resource"), resource):
            return oauth_error(400, "invalid_target", f"The resource here is {resource}")
        verifier = parameters.get("code_verifier")
        if verifier and not _VERIFIER.fullmatch(verifier):
            return oauth_error(400, "invalid_grant", "code_verifier has 43 to 128 characters.")
        parameters = with_newest_secret(self._provider.keyring, parameters)
        response: Response = await self._handler.handle(with_form(request, parameters))
        return response


class _Register:
    """`/register`: lets programs register (RFC 7591). Anybody may, so it is limited."""

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        """Ask this provider, as often as `limit` lets an address."""
        self._handler = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        await self._limit(client_address(request.scope, self._trusted_proxies))
        response = await self._handler.handle(request)
        response.headers.update(NO_STORE)
        return response


class _Revoke:
    """`/revoke`: a program gives back what it got, which ends the sign-in (RFC 7009)."""

    def __init__(self, provider: Provider) -> None:
        """Ask this provider."""
        self._provider = provider
        self._authenticator = ClientAuthenticator(provider)

    async def handle(self, request: Request) -> Response:
        """End the sign-in of a token, whichever it is; an unknown one has none."""
        parameters = await parameters_of(request)
        authenticating = with_newest_secret(self._provider.keyring, parameters)
        try:
            client = await self._authenticator.authenticate_request(
                with_form(request, authenticating)
            )
        except AuthenticationError as error:
            return oauth_error(401, "invalid_client", error.message)
        token = parameters.get("token")
        if token is None:
            return oauth_error(400, "invalid_request", "Send the token that is to be revoked.")
        await self._provider.sign_ins.end(token, client.client_id)
        return Response(status_code=200, headers=NO_STORE)

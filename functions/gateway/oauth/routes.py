"""The routes of Carrel as its own OAuth 2.1 authorization server.

The SDK's handlers implement `/authorize`, `/token` and `/register`; this module adds what they
leave out. `/revoke` is implemented here, because the SDK's rejects public clients.
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

from functions.gateway.auth.client_address import get_client_address
from functions.gateway.auth.public_url import get_issuer_url, get_resource_url
from functions.gateway.http_errors import accepts_page
from functions.gateway.oauth.authorization import CONSENT_PATH, Approvals
from functions.gateway.oauth.client_id_metadata import ClientDocuments
from functions.gateway.oauth.clients import (
    GRANT_TYPES,
    ClientRegistry,
    FixedClientLookup,
    TokenEndpointClientLookup,
    is_document_url,
    replace_rotated_secret,
)
from functions.gateway.oauth.consent import Consent
from functions.gateway.oauth.consent_page import make_message_page
from functions.gateway.oauth.google import GoogleSignIn
from functions.gateway.oauth.http import (
    NO_STORE_HEADERS,
    RESPONSE_TIMEOUT_SECONDS,
    copy_as_get,
    copy_with_form,
    limit_body,
    make_oauth_error,
    make_oauth_error_response,
    read_parameters,
    wrap_with_errors,
)
from functions.gateway.oauth.metadata import make_metadata_routes
from functions.gateway.oauth.provider import Provider, SignInService, is_same_resource
from functions.gateway.oauth.redirect_uris import add_query
from functions.gateway.rate_limits import LOGINS, REGISTRATIONS
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.access import Access
    from functions.gateway.oauth.clients import MetadataDocumentLookup
    from functions.gateway.oauth.http import Handler
    from functions.gateway.rate_limits import AddressLimit
    from shared.accounts.grant import Proof
    from shared.core.errors import CarrelError

_GET_OR_POST: Final = ["GET", "POST"]
_POST: Final = ["POST", "OPTIONS"]
_DEFAULT_CHALLENGE_METHOD: Final = "plain"
"""The method of a request that names none (RFC 7636, 4.3). It is not supported."""
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_UNKNOWN_CLIENT: Final = (
    "This server does not know the program that sent you here, or its registration has expired."
    " Remove Carrel in that program and add it again."
)


def make_sign_in_routes(access: Access) -> list[Route]:
    """Make the endpoints for programs and the pages for people."""
    settings, keyring, clock = access.settings, access.keyring, access.clock
    google = _make_google_sign_in(access)
    consent = Consent(
        settings=settings,
        keyring=keyring,
        callers=access.callers,
        approvals=Approvals(keyring, access.connection, get_issuer_url(settings), clock),
        clock=clock,
        login_limit=partial(access.limits.take_for_address, LOGINS),
        google=google,
    )
    register_limit = partial(access.limits.take_for_address, REGISTRATIONS)
    return [
        *make_program_routes(
            access, ClientDocuments(clock=clock), make_sign_ins(access), register_limit
        ),
        *consent.routes(),
    ]


def make_sign_ins(access: Access) -> SignInService:
    """Make the service of the sign-ins that programs and the console have."""
    google = _make_google_sign_in(access)
    return SignInService(
        access.keyring,
        access.tokens,
        access.connection,
        access.clock,
        google.is_still_allowed if google else _reject_every_proof,
    )


def _make_google_sign_in(access: Access) -> GoogleSignIn | None:
    if not access.settings.google_client_id:
        return None
    return GoogleSignIn(access.settings, access.keyring, access.clock)


def make_program_routes(
    access: Access,
    documents: MetadataDocumentLookup,
    sign_ins: SignInService,
    register_limit: AddressLimit,
    *,
    timeout: float = RESPONSE_TIMEOUT_SECONDS,
) -> list[Route]:
    """Make the endpoints for programs, and the metadata about them.

    Args:
        documents: Looks up clients whose id is the URL of their document.
        register_limit: Counts registrations and document lookups by network address.
    """
    clients = ClientRegistry(access.keyring, access.connection, access.clock, documents)
    provider = Provider(
        issuer=get_issuer_url(access.settings),
        resource=get_resource_url(access.settings),
        keyring=access.keyring,
        clock=access.clock,
        clients=clients,
        registry=clients,
        sign_ins=sign_ins,
    )
    token_provider = replace(provider, clients=TokenEndpointClientLookup(clients))
    token = _Token(token_provider, access.settings.proxy_count)
    authorize = _Authorize(provider, register_limit, access.settings.proxy_count)
    register = _Register(provider, register_limit, access.settings.proxy_count)
    return [
        *make_metadata_routes(provider.issuer, provider.resource),
        # Without CORS, since browsers navigate there and scripts do not call it.
        Route(
            AUTHORIZATION_PATH,
            limit_body(
                request_response(wrap_with_errors(authorize.handle, timeout, _authorize_error))
            ),
            methods=_GET_OR_POST,
        ),
        _make_route(TOKEN_PATH, wrap_with_errors(token.handle, timeout)),
        _make_route(REGISTRATION_PATH, wrap_with_errors(register.handle, timeout)),
        _make_route(REVOCATION_PATH, wrap_with_errors(_Revoke(token_provider).handle, timeout)),
    ]


def _make_route(path: str, handler: Handler) -> Route:
    return Route(path, limit_body(cors_middleware(handler, _POST)), methods=_POST)


def _reject_every_proof(_proof: Proof) -> bool:
    """Reject every proof, because sign-in with Google is switched off."""
    return False


class _Authorize:
    """`/authorize`: sends a person's browser to the consent page, or back to the program.

    An error for the program names the issuer (RFC 9207). An error that cannot be sent to the
    program is shown to the person.
    """

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        self._provider = provider
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a person's browser.

        Raises:
            CarrelError: The error cannot be sent to the program.
        """
        parameters = await read_parameters(request)
        parameters = {"code_challenge_method": _DEFAULT_CHALLENGE_METHOD, **parameters}
        client_id = parameters.get("client_id", "")
        if is_document_url(client_id):
            await self._limit(get_client_address(request.scope, self._trusted_proxies))
        # Looked up here, because the SDK would log a failure with text from an untrusted server.
        client = await self._provider.get_client(client_id)
        if client is None:
            raise InvalidInput(_UNKNOWN_CLIENT)
        handler = AuthorizationHandler(replace(self._provider, clients=FixedClientLookup(client)))
        response = await handler.handle(copy_as_get(request, parameters))
        location = response.headers.get("location")
        if location is None:
            raise InvalidInput(json.loads(bytes(response.body))["error_description"])
        if not location.startswith(f"{self._provider.issuer}{CONSENT_PATH}?"):
            # RFC 6749 does not allow a line break in a description.
            location = location.replace("%0A", "+")
            response.headers["location"] = add_query(location, iss=self._provider.issuer)
        return response


def _authorize_error(request: Request, error: CarrelError) -> Response:
    """Make an error page for a browser, and an OAuth error for any other client."""
    if accepts_page(request):
        title = "You cannot sign in right now" if error.retry_after else "You cannot sign in"
        return make_message_page(title, error)
    return make_oauth_error_response(request, error)


class _Token:
    """`/token`: exchanges codes and refresh tokens for tokens."""

    def __init__(self, provider: Provider, trusted_proxies: int) -> None:
        self._provider = provider
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        parameters = await read_parameters(request)
        if parameters.get("grant_type", GRANT_TYPES[0]) not in GRANT_TYPES:
            supported = " and ".join(GRANT_TYPES)
            return make_oauth_error(
                400, "unsupported_grant_type", f"The grant types are {supported}."
            )
        resource = self._provider.resource
        if not is_same_resource(parameters.get("resource"), resource):
            return make_oauth_error(400, "invalid_target", f"The resource must be {resource}")
        verifier = parameters.get("code_verifier")
        if verifier and not _VERIFIER.fullmatch(verifier):
            return make_oauth_error(
                400, "invalid_grant", "code_verifier needs 43 to 128 characters."
            )
        parameters = replace_rotated_secret(self._provider.keyring, parameters)
        address = get_client_address(request.scope, self._trusted_proxies)
        provider = replace(self._provider, address=address)
        handler = TokenHandler(provider, ClientAuthenticator(provider))
        response: Response = await handler.handle(copy_with_form(request, parameters))
        return response


class _Register:
    """`/register`: registers programs (RFC 7591). It is public, so it has a rate limit."""

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        self._handler = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        await self._limit(get_client_address(request.scope, self._trusted_proxies))
        response = await self._handler.handle(request)
        response.headers.update(NO_STORE_HEADERS)
        return response


class _Revoke:
    """`/revoke`: ends the sign-in of a token that a program gives up (RFC 7009)."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._authenticator = ClientAuthenticator(provider)

    async def handle(self, request: Request) -> Response:
        """End the sign-in of an access or refresh token. An unknown token is ignored."""
        parameters = await read_parameters(request)
        credentials = replace_rotated_secret(self._provider.keyring, parameters)
        try:
            client = await self._authenticator.authenticate_request(
                copy_with_form(request, credentials)
            )
        except AuthenticationError as error:
            return make_oauth_error(401, "invalid_client", error.message)
        token = parameters.get("token")
        if token is None:
            return make_oauth_error(400, "invalid_request", "Send the token to revoke.")
        await self._provider.sign_ins.end(token, client.client_id)
        return Response(status_code=200, headers=NO_STORE_HEADERS)

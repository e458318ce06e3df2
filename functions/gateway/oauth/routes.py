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
    find_at_token_endpoint,
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
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from functions.gateway.access import Access
    from functions.gateway.oauth.clients import Client, MetadataDocumentLookup
    from functions.gateway.oauth.http import Handler
    from functions.gateway.rate_limits import AddressLimit
    from shared.accounts.grant import Proof
    from shared.core.errors import CarrelError

    CountRequest = Callable[[Request], Awaitable[None]]
    """Counts a request towards the limit of its address, or raises RateLimited."""

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
        find_client=clients.get,
        registry=clients,
        sign_ins=sign_ins,
    )
    at_token_endpoint = replace(provider, find_client=partial(find_at_token_endpoint, clients))
    proxies = access.settings.proxy_count

    async def count_request(request: Request) -> None:
        await register_limit(get_client_address(request.scope, proxies))

    authorize = partial(_authorize, provider, count_request)
    exchange = partial(_exchange, at_token_endpoint, proxies)
    register = partial(_register, provider, count_request)
    revoke = partial(_revoke, at_token_endpoint)
    return [
        *make_metadata_routes(provider.issuer, provider.resource),
        # Without CORS, since browsers navigate there and scripts do not call it.
        Route(
            AUTHORIZATION_PATH,
            limit_body(request_response(wrap_with_errors(authorize, timeout, _authorize_error))),
            methods=_GET_OR_POST,
        ),
        _make_route(TOKEN_PATH, wrap_with_errors(exchange, timeout)),
        _make_route(REGISTRATION_PATH, wrap_with_errors(register, timeout)),
        _make_route(REVOCATION_PATH, wrap_with_errors(revoke, timeout)),
    ]


def _make_route(path: str, handler: Handler) -> Route:
    return Route(path, limit_body(cors_middleware(handler, _POST)), methods=_POST)


def _reject_every_proof(_proof: Proof) -> bool:
    """Reject every proof, because sign-in with Google is switched off."""
    return False


async def _authorize(provider: Provider, count_request: CountRequest, request: Request) -> Response:
    """Answer `/authorize`: send a person's browser to the consent page, or back to the program.

    An error for the program names the issuer (RFC 9207).

    Raises:
        CarrelError: The error cannot be sent to the program, and is shown to the person.
    """
    parameters = await read_parameters(request)
    parameters = {"code_challenge_method": _DEFAULT_CHALLENGE_METHOD, **parameters}
    client_id = parameters.get("client_id", "")
    if is_document_url(client_id):
        await count_request(request)
    # Looked up here, because the SDK would log a failure with text from an untrusted server.
    client = await provider.get_client(client_id)
    if client is None:
        raise InvalidInput(_UNKNOWN_CLIENT)

    async def find_client(_client_id: str) -> Client | None:
        return client

    handler = AuthorizationHandler(replace(provider, find_client=find_client))
    response = await handler.handle(copy_as_get(request, parameters))
    location = response.headers.get("location")
    if location is None:
        raise InvalidInput(json.loads(bytes(response.body))["error_description"])
    if not location.startswith(f"{provider.issuer}{CONSENT_PATH}?"):
        # RFC 6749 does not allow a line break in a description.
        location = location.replace("%0A", "+")
        response.headers["location"] = add_query(location, iss=provider.issuer)
    return response


def _authorize_error(request: Request, error: CarrelError) -> Response:
    """Make an error page for a browser, and an OAuth error for any other client."""
    if accepts_page(request):
        title = "You cannot sign in right now" if error.retry_after else "You cannot sign in"
        return make_message_page(title, error)
    return make_oauth_error_response(request, error)


async def _exchange(provider: Provider, trusted_proxies: int, request: Request) -> Response:
    """Answer `/token`: exchange a code or a refresh token for tokens."""
    parameters = await read_parameters(request)
    if parameters.get("grant_type", GRANT_TYPES[0]) not in GRANT_TYPES:
        supported = " and ".join(GRANT_TYPES)
        return make_oauth_error(400, "unsupported_grant_type", f"The grant types are {supported}.")
    if not is_same_resource(parameters.get("resource"), provider.resource):
        return make_oauth_error(400, "invalid_target", f"The resource must be {provider.resource}")
    verifier = parameters.get("code_verifier")
    if verifier and not _VERIFIER.fullmatch(verifier):
        return make_oauth_error(400, "invalid_grant", "code_verifier needs 43 to 128 characters.")
    parameters = replace_rotated_secret(provider.keyring, parameters)
    provider = replace(provider, address=get_client_address(request.scope, trusted_proxies))
    handler = TokenHandler(provider, ClientAuthenticator(provider))
    response: Response = await handler.handle(copy_with_form(request, parameters))
    return response


async def _register(provider: Provider, count_request: CountRequest, request: Request) -> Response:
    """Answer `/register`: register a program (RFC 7591). It is public, so it has a rate limit."""
    await count_request(request)
    handler = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
    response = await handler.handle(request)
    response.headers.update(NO_STORE_HEADERS)
    return response


async def _revoke(provider: Provider, request: Request) -> Response:
    """Answer `/revoke`: end the sign-in of a token that a program gives up (RFC 7009).

    An unknown token is ignored.
    """
    parameters = await read_parameters(request)
    credentials = replace_rotated_secret(provider.keyring, parameters)
    try:
        client = await ClientAuthenticator(provider).authenticate_request(
            copy_with_form(request, credentials)
        )
    except AuthenticationError as error:
        return make_oauth_error(401, "invalid_client", error.message)
    token = parameters.get("token")
    if token is None:
        return make_oauth_error(400, "invalid_request", "Send the token to revoke.")
    await provider.sign_ins.end(token, client.client_id)
    return Response(status_code=200, headers=NO_STORE_HEADERS)

"""Metadata of the authorization server (RFC 8414) and of the MCP endpoint (RFC 9728)."""

from __future__ import annotations

from typing import Final

from mcp.server.auth.handlers.metadata import MetadataHandler, ProtectedResourceMetadataHandler
from mcp.server.auth.routes import (
    AUTHORIZATION_PATH,
    REGISTRATION_PATH,
    REVOCATION_PATH,
    TOKEN_PATH,
    cors_middleware,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from starlette.routing import Route

from functions.gateway.auth.public_url import METADATA_PATH, RESOURCE_PATH
from functions.gateway.oauth.clients import (
    ALL_SCOPES,
    AUTH_METHOD_NONE,
    AUTH_METHOD_POST,
    GRANT_TYPES,
)

SERVER_PATH: Final = "/.well-known/oauth-authorization-server"
_AUTH_METHODS: Final = [AUTH_METHOD_NONE, AUTH_METHOD_POST]
_METHODS: Final = ["GET", "OPTIONS"]


def make_server_metadata(issuer: str) -> OAuthMetadata:
    """Return the metadata of the authorization server."""
    # Validation from a string preserves the issuer's exact spelling, which programs compare.
    return OAuthMetadata.model_validate(
        {
            "issuer": issuer,
            "authorization_endpoint": issuer + AUTHORIZATION_PATH,
            "token_endpoint": issuer + TOKEN_PATH,
            "registration_endpoint": issuer + REGISTRATION_PATH,
            "revocation_endpoint": issuer + REVOCATION_PATH,
            "scopes_supported": ALL_SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": GRANT_TYPES,
            "token_endpoint_auth_methods_supported": _AUTH_METHODS,
            "revocation_endpoint_auth_methods_supported": _AUTH_METHODS,
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
    )


def make_resource_metadata(issuer: str, resource: str) -> ProtectedResourceMetadata:
    """Return the metadata of the MCP endpoint."""
    return ProtectedResourceMetadata.model_validate(
        {
            "resource": resource,
            "authorization_servers": [issuer],
            "scopes_supported": ALL_SCOPES,
            "resource_name": "Carrel",
        }
    )


def make_metadata_routes(issuer: str, resource: str) -> list[Route]:
    """Make the routes of each document: at its path, and with `/mcp` appended for some programs."""
    server_handler = MetadataHandler(make_server_metadata(issuer)).handle
    resource_handler = ProtectedResourceMetadataHandler(
        make_resource_metadata(issuer, resource)
    ).handle
    return [
        Route(path + suffix, cors_middleware(handle, _METHODS), methods=_METHODS)
        for path, handle in ((SERVER_PATH, server_handler), (METADATA_PATH, resource_handler))
        for suffix in ("", RESOURCE_PATH)
    ]

"""What a client is told that has to sign in first (RFC 6750, RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.caller import Scope
    from shared.settings import Settings

RESOURCE_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


def issuer_of(settings: Settings) -> str:
    """The authorization server's name: the public address, without a slash at its end."""
    return settings.public_url.rstrip("/")


def resource_of(settings: Settings) -> str:
    """What access tokens are for: the MCP endpoint."""
    return issuer_of(settings) + RESOURCE_PATH


def challenge(settings: Settings, scopes: Iterable[Scope], error: str | None = None) -> str:
    """The value of `WWW-Authenticate`.

    Args:
        settings: Where the metadata is.
        scopes: All that the request needs.
        error: `invalid_token` or `insufficient_scope`; None where no credential was sent.
    """
    parts = {
        "error": error,
        "resource_metadata": issuer_of(settings) + METADATA_PATH + RESOURCE_PATH,
        "scope": " ".join(sorted(scopes)),
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)

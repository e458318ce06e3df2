"""The gateway's public address, and what a client is told there that has to sign in first.

The latter is in RFC 6750 and RFC 9728.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from shared.core.addresses import LOOPBACK_HOSTS, is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.core.caller import Scope
    from shared.core.settings import Settings

RESOURCE_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


def issuer_of(settings: Settings) -> str:
    """The authorization server's name: the public address, without a slash at its end."""
    return settings.public_url.rstrip("/")


def resource_of(settings: Settings) -> str:
    """What access tokens are for: the MCP endpoint."""
    return issuer_of(settings) + RESOURCE_PATH


def hosts_of(settings: Settings) -> list[str]:
    """How requests name our host; a laptop's, by whichever of its names."""
    url = urlsplit(issuer_of(settings))
    if not is_loopback(url):
        return [url.netloc.lower()]
    port = f":{url.port}" if url.port else ""
    return [host + port for host in LOOPBACK_HOSTS]


def origins_of(settings: Settings) -> list[str]:
    """How browsers name our pages."""
    scheme = urlsplit(issuer_of(settings)).scheme
    return [f"{scheme}://{host}" for host in hosts_of(settings)]


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

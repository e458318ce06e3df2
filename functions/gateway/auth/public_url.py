"""The gateway's public URLs, and the challenge to sign in (RFC 6750, RFC 9728)."""

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


def get_issuer_url(settings: Settings) -> str:
    """Return the authorization server's name: the public URL without a trailing slash."""
    return settings.public_url.rstrip("/")


def get_resource_url(settings: Settings) -> str:
    """Return the resource of access tokens: the URL of the MCP endpoint."""
    return get_issuer_url(settings) + RESOURCE_PATH


def list_allowed_hosts(settings: Settings) -> list[str]:
    """Return the allowed `Host` headers: the public host, or all loopback names on a laptop."""
    url = urlsplit(get_issuer_url(settings))
    if not is_loopback(url):
        return [url.netloc.lower()]
    port = f":{url.port}" if url.port else ""
    return [host + port for host in LOOPBACK_HOSTS]


def list_own_origins(settings: Settings) -> list[str]:
    """Return the allowed `Origin` headers of this server's own pages."""
    scheme = urlsplit(get_issuer_url(settings)).scheme
    return [f"{scheme}://{host}" for host in list_allowed_hosts(settings)]


def make_challenge(settings: Settings, scopes: Iterable[Scope], error: str | None = None) -> str:
    """Make the value of the header `WWW-Authenticate`, which asks a program to sign in.

    Args:
        settings: The settings with the public URL.
        scopes: All scopes that the request needs.
        error: `invalid_token` or `insufficient_scope`, or None if no credential was sent.
    """
    parts = {
        "error": error,
        "resource_metadata": get_issuer_url(settings) + METADATA_PATH + RESOURCE_PATH,
        "scope": " ".join(sorted(scopes)),
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)

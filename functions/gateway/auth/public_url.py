"""The gateway's public URLs, and the challenge to sign in (RFC 6750, RFC 9728)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from shared.core.addresses import LOOPBACK_HOSTS, has_port, is_loopback

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


def list_own_hosts(settings: Settings) -> list[str]:
    """Return the hosts of this server's pages: the public one, or all loopback names."""
    url = urlsplit(get_issuer_url(settings))
    if not is_loopback(url):
        return [url.netloc.lower()]
    port = f":{url.port}" if url.port else ""
    return [host + port for host in LOOPBACK_HOSTS]


def list_mcp_hosts(settings: Settings) -> list[str]:
    """Return the `Host` headers under which MCP clients may call: its own, and ALLOWED_HOSTS.

    A name without a port stands for itself, as a proxy may send it, and for the port of the public
    URL. None of the further names is an origin, an issuer or an audience.
    """
    url = urlsplit(get_issuer_url(settings))
    port = f":{url.port}" if url.port else ""
    own_names = [host.removesuffix(port) for host in list_own_hosts(settings)]
    names = [*own_names, *settings.allowed_hosts]
    ports = dict.fromkeys(["", port])
    hosts = [name + port for name in names for port in ([""] if has_port(name) else ports)]
    return list(dict.fromkeys([*list_own_hosts(settings), *hosts]))


def list_own_origins(settings: Settings) -> list[str]:
    """Return the allowed `Origin` headers of this server's own pages."""
    scheme = urlsplit(get_issuer_url(settings)).scheme
    return [f"{scheme}://{host}" for host in list_own_hosts(settings)]


def make_challenge(settings: Settings, scopes: Iterable[Scope], error: str | None = None) -> str:
    """Make the value of the header `WWW-Authenticate`, which asks a program to sign in.

    Args:
        error: `invalid_token` or `insufficient_scope`, or None if no credential was sent.
    """
    parts = {
        "error": error,
        "resource_metadata": get_issuer_url(settings) + METADATA_PATH + RESOURCE_PATH,
        "scope": " ".join(sorted(scopes)),
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)

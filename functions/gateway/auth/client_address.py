"""The network address of a client, from the connection or from trusted proxies."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Scope

_UNKNOWN: Final = "unknown"
_CUSTOMER_PREFIX: Final = 64
"""The bits of an IPv6 address that identify a customer, who chooses the remaining bits freely."""


def get_client_address(scope: Scope, trusted_proxies: int) -> str:
    """Return the network address that a request comes from; for IPv6, its /64 network.

    Each proxy appends the address of its peer to `X-Forwarded-For`. Only the entries of this
    deployment's own proxies are trusted, because the client may have sent those before them.
    """
    text = _get_peer(scope)
    if trusted_proxies:
        hops = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        text = hops[-trusted_proxies].strip() if len(hops) >= trusted_proxies else _UNKNOWN
    try:
        address = ip_address(text)
    except ValueError:
        return _UNKNOWN
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, _CUSTOMER_PREFIX), strict=False))


def _get_peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else _UNKNOWN

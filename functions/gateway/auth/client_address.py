"""From where a request comes, as far as that can be believed."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Scope

_UNKNOWN: Final = "unknown"
_ONE_HOME: Final = 64
"""Bits of an IPv6 address that belong to one customer, who may choose the others at will."""


def client_address(scope: Scope, trusted_proxies: int) -> str:
    """The network address that a request comes from; of IPv6, the network of 64 bits.

    Each proxy appends to `X-Forwarded-For` the address that it saw; what stands before the entries
    of our own proxies was sent by the client, and proves nothing.
    """
    text = _connected(scope)
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
    return str(ip_network((address, _ONE_HOME), strict=False))


def _connected(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else _UNKNOWN

"""Which network addresses a stranger may make us connect to: those of the public internet alone."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.gateway.oauth.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Resolve = Callable[[str], Awaitable[list["Endpoint"]]]
    """Finds where a host is reached, once; all of it may be connected to."""

HTTPS_PORT: Final = 443

# "IANA IPv4 Special-Purpose Address Registry" and "IANA IPv6 Special-Purpose Address Registry".
# They are written out, for `ipaddress.is_global` differs from one patch of Python to the next.
_NOT_PUBLIC_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by a carrier's customers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, and the metadata server of every cloud
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_UNICAST_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which has an IPv4 address inside
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which has an IPv4 address inside
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Where a network of IPv6 alone finds the hosts of IPv4 (RFC 6052): it ends with their address."""

# A name server that hangs takes these threads, and none that other work waits for.
_THREADS: Final = ThreadPoolExecutor(4, "resolver")


class Endpoint(NamedTuple):
    """Where to connect to."""

    address: str
    port: int

    @property
    def authority(self) -> str:
        """As a URL has it."""
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )


async def resolve_public(host: str) -> list[Endpoint]:
    """Where a host is reached over https, IPv4 first: not every cloud has a way out by IPv6.

    Raises:
        Refused: It has no address, or one that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_THREADS, _look_up, host)
    except OSError as error:
        raise Refused("host_unknown") from error
    return vetted(found)


def vetted(addresses: Iterable[str]) -> list[Endpoint]:
    """These addresses, if all are public: a host with any other is up to something.

    Raises:
        Refused: They are not, or there is none.
    """
    found = list(dict.fromkeys(addresses))
    if not found:
        raise Refused("host_unknown")
    if not all(map(is_public, found)):
        raise Refused("address_not_public")
    return [Endpoint(each, HTTPS_PORT) for each in sorted(found, key=lambda text: ":" in text)]


def is_public(text: str) -> bool:
    """Whether an address belongs to one host of the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_4(address)
    if address in _NAT64:
        return _is_public_4(IPv4Address(address.packed[-4:]))
    return _is_public_6(address)


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC_4)


def _is_public_6(address: IPv6Address) -> bool:
    inside = address in _UNICAST_6 and address.scope_id is None
    return inside and not any(address in network for network in _NOT_PUBLIC_6)


def _look_up(host: str) -> list[str]:
    found = socket.getaddrinfo(
        host, HTTPS_PORT, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [str(address[0]) for *_, address in found]

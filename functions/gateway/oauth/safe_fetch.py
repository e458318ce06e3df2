"""Fetching a small JSON document from where a stranger says, safe from SSRF.

Whoever names a URL could mean one that only we reach: a metadata server, a neighbour behind the
firewall. So the host is resolved once, each of its addresses must be public, and the connection
goes to an address that was looked at, not to the name again, which may answer otherwise by then.
"""

from __future__ import annotations

import asyncio
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import httpx2

from shared.core.http import media_type, read_at_most

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    Resolve = Callable[[str], Awaitable[list["Endpoint"]]]
    """Finds where a host is reached, once; all of it may be connected to."""

SECONDS: Final = 5.0
"""How long everything together may take."""
CONNECT_SECONDS: Final = 2.0
"""How long one address may take to answer, so that there is time for another."""
MAX_BYTES: Final = 64 * 1024
MAX_ADDRESSES: Final = 3
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_URL: Final = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?=[a-z]){_LABEL})(?::443)?"
    r"(?P<path>/(?:[a-z0-9._~!$&()*+,;=:@/-]|%[0-9a-f]{2})*)"
    r"(?P<query>\?(?:[a-z0-9._~!$&()*+,;=:@/?-]|%[0-9a-f]{2})*)?",
    re.IGNORECASE | re.ASCII,
)
_DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE | re.ASCII)
_JSON: Final = re.compile(r"application/(?:[a-z0-9.!#$&^_-]+\+)?json", re.IGNORECASE | re.ASCII)
_BUSY: Final = frozenset({httpx2.codes.REQUEST_TIMEOUT, httpx2.codes.TOO_MANY_REQUESTS})
_MAX_URL_LENGTH: Final = 2_000
_MAX_HOST_LENGTH: Final = 253
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
_RESOLVERS: Final = ThreadPoolExecutor(4, "resolver")


class DocumentRefused(Exception):
    """What a URL leads to is not taken for a document.

    Attributes:
        reason: A word for the log; never anything that the other side said.
    """

    def __init__(self, reason: str) -> None:
        """Refuse it for this reason."""
        super().__init__(reason)
        self.reason = reason


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
        DocumentRefused: It has no address, or one that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.run_in_executor(_RESOLVERS, _look_up, host)
    except OSError as error:
        raise DocumentRefused("host_unknown") from error
    return public_endpoints(addresses)


def public_endpoints(addresses: Iterable[str]) -> list[Endpoint]:
    """These addresses, if all are public: a host with any other is up to something.

    Raises:
        DocumentRefused: They are not, or there is none.
    """
    distinct = list(dict.fromkeys(addresses))
    if not distinct:
        raise DocumentRefused("host_unknown")
    if not all(map(is_public, distinct)):
        raise DocumentRefused("address_not_public")
    return [Endpoint(text, HTTPS_PORT) for text in sorted(distinct, key=lambda text: ":" in text)]


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
    records = socket.getaddrinfo(
        host, HTTPS_PORT, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [str(address[0]) for *_, address in records]


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """An https URL that may name a document.

    Attributes:
        text: The whole, as it was given.
        host: A name with a dot, and no number.
        target: Its path, and its query if it has one.
    """

    text: str
    host: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read one: no user, no fragment, no port but 443, no dot segments, no bare address.

        Raises:
            DocumentRefused: It is none.
        """
        match = _URL.fullmatch(text) if len(text) <= _MAX_URL_LENGTH else None
        if not match or _DOTS.search(match["path"]) or len(match["host"]) > _MAX_HOST_LENGTH:
            raise DocumentRefused("url")
        return cls(text, match["host"].lower(), match["path"] + (match["query"] or ""))


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document as it was served.

    Attributes:
        body: JSON, or what calls itself so.
        cache_control: What its server says about keeping it; empty if nothing.
    """

    body: bytes
    cache_control: str


class SafeFetch:
    """Fetches; follows no redirect, asks no proxy, keeps no cookie."""

    def __init__(
        self,
        resolve: Resolve = resolve_public,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        """Find hosts with `resolve`, which vouches for them, and trust whom `tls` trusts."""
        self._resolve = resolve
        self._given_tls = tls
        self._seconds = seconds

    async def get(self, url: PublicUrl) -> Fetched:
        """Fetch a document.

        Raises:
            DocumentRefused: It cannot be had, is too large or is no JSON.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._from_first(await self._resolve(url.host), url)
        except TimeoutError as error:
            raise DocumentRefused("too_slow") from error
        except (httpx2.HTTPError, OSError) as error:
            raise DocumentRefused("unreachable") from error

    async def _from_first(self, endpoints: Sequence[Endpoint], url: PublicUrl) -> Fetched:
        timeout = httpx2.Timeout(self._seconds, connect=CONNECT_SECONDS)
        async with httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=timeout) as client:
            *others, last = endpoints[:MAX_ADDRESSES]
            for endpoint in others:
                try:
                    return await _fetch(client, endpoint, url)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue
            return await _fetch(client, last, url)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # The name in the certificate is checked, though the connection goes to an address.
        return self._given_tls or httpx2.create_ssl_context()


async def _fetch(client: httpx2.AsyncClient, endpoint: Endpoint, url: PublicUrl) -> Fetched:
    # Glued together, not joined: a target may begin with two slashes, like another host.
    where = f"https://{endpoint.authority}{url.target}"
    headers = {"host": url.host, "accept": "application/json", "accept-encoding": "identity"}
    extensions = {"sni_hostname": url.host}
    async with client.stream("GET", where, headers=headers, extensions=extensions) as response:
        _check(response)
        return Fetched(await _body(response), response.headers.get("cache-control", ""))


def _check(response: httpx2.Response) -> None:
    if response.status_code in _BUSY:
        raise DocumentRefused("server_busy")
    if httpx2.codes.is_server_error(response.status_code):
        raise DocumentRefused("server_error")
    if response.status_code != httpx2.codes.OK:
        raise DocumentRefused("status")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise DocumentRefused("content_encoding")
    if not _JSON.fullmatch(media_type(response.headers.get("content-type"))):
        raise DocumentRefused("content_type")


async def _body(response: httpx2.Response) -> bytes:
    body = await read_at_most(MAX_BYTES, response.aiter_raw())
    if body is None:
        raise DocumentRefused("too_large")
    return body

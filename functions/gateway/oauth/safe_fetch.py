"""Fetching a small JSON document from an untrusted URL, with protection against SSRF.

An untrusted URL could point to a host that only this server can reach, such as a metadata server or
a machine behind the firewall. So the host is resolved once, all of its addresses must be public,
and the connection goes to a checked address, because a second resolution could differ.
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

from shared.core.http import media_type, read_limited

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    Resolve = Callable[[str], Awaitable[list["Endpoint"]]]
    """A function that resolves a host to addresses that may all be connected to."""

FETCH_TIMEOUT_SECONDS: Final = 5.0
"""The longest duration of a whole fetch, in seconds."""
CONNECT_TIMEOUT_SECONDS: Final = 2.0
"""The longest time to connect to one address, in seconds, which leaves time to try another."""
MAX_DOCUMENT_BYTES: Final = 64 * 1024
"""The longest document, in bytes."""
MAX_ADDRESSES: Final = 3
"""The largest number of a host's addresses that are tried."""
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_URL: Final = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+(?=[a-z]){_LABEL})(?::443)?"
    r"(?P<path>/(?:[a-z0-9._~!$&()*+,;=:@/-]|%[0-9a-f]{2})*)"
    r"(?P<query>\?(?:[a-z0-9._~!$&()*+,;=:@/?-]|%[0-9a-f]{2})*)?",
    re.IGNORECASE | re.ASCII,
)
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE | re.ASCII)
_JSON_MEDIA_TYPE: Final = re.compile(
    r"application/(?:[a-z0-9.!#$&^_-]+\+)?json", re.IGNORECASE | re.ASCII
)
_BUSY_STATUSES: Final = frozenset({httpx2.codes.REQUEST_TIMEOUT, httpx2.codes.TOO_MANY_REQUESTS})
_MAX_URL_LENGTH: Final = 2_000
_MAX_HOST_LENGTH: Final = 253
HTTPS_PORT: Final = 443

# "IANA IPv4 Special-Purpose Address Registry" and "IANA IPv6 Special-Purpose Address Registry".
# They are listed here because `ipaddress.is_global` differs between patch releases of Python.
_NON_PUBLIC_IPV4: Final = tuple(
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
_UNICAST_IPV6: Final = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6: Final = tuple(
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
_NAT64_PREFIX: Final = IPv6Network("64:ff9b::/96")
"""The prefix under which IPv6-only networks reach IPv4 hosts (RFC 6052)."""

# A hanging name server blocks only these threads, not those of other work.
_RESOLVER_THREADS: Final = ThreadPoolExecutor(4, "resolver")


class DocumentRejected(Exception):
    """A URL or its document is rejected.

    Attributes:
        reason: A code for the log, never text from the other server.
    """

    def __init__(self, reason: str) -> None:
        """Store the reason."""
        super().__init__(reason)
        self.reason = reason


class Endpoint(NamedTuple):
    """A network address and port to connect to."""

    address: str
    port: int

    @property
    def authority(self) -> str:
        """The endpoint in a URL's format."""
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )


async def resolve_public(host: str) -> list[Endpoint]:
    """Resolve a host for https, IPv4 first since not every cloud network has IPv6.

    Raises:
        DocumentRejected: The host has no address, or one that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.run_in_executor(_RESOLVER_THREADS, _look_up, host)
    except OSError as error:
        raise DocumentRejected("host_unknown") from error
    return public_endpoints(addresses)


def public_endpoints(addresses: Iterable[str]) -> list[Endpoint]:
    """Return the endpoints of addresses. All must be public, since a mix suggests an attack.

    Raises:
        DocumentRejected: An address is not public, or there is none.
    """
    distinct = list(dict.fromkeys(addresses))
    if not distinct:
        raise DocumentRejected("host_unknown")
    if not all(map(is_public, distinct)):
        raise DocumentRejected("address_not_public")
    return [Endpoint(text, HTTPS_PORT) for text in sorted(distinct, key=lambda text: ":" in text)]


def is_public(text: str) -> bool:
    """Return whether an address is a unicast address of the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_ipv4(address)
    if address in _NAT64_PREFIX:
        return _is_public_ipv4(IPv4Address(address.packed[-4:]))
    return _is_public_ipv6(address)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NON_PUBLIC_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    is_unicast = address in _UNICAST_IPV6 and address.scope_id is None
    return is_unicast and not any(address in network for network in _NON_PUBLIC_IPV6)


def _look_up(host: str) -> list[str]:
    records = socket.getaddrinfo(
        host, HTTPS_PORT, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [str(address[0]) for *_, address in records]


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """An https URL that may be fetched.

    Attributes:
        text: The original URL.
        host: The host, a name with a dot, never an IP address.
        target: The path and the query.
    """

    text: str
    host: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL on port 443 without user, fragment, dot segments or IP address.

        Raises:
            DocumentRejected: The URL is not allowed.
        """
        match = _URL.fullmatch(text) if len(text) <= _MAX_URL_LENGTH else None
        if not match or _DOT_SEGMENT.search(match["path"]) or len(match["host"]) > _MAX_HOST_LENGTH:
            raise DocumentRejected("url")
        return cls(text, match["host"].lower(), match["path"] + (match["query"] or ""))


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A fetched document.

    Attributes:
        body: The body, declared as JSON but not parsed.
        cache_control: The `Cache-Control` header, or empty without one.
    """

    body: bytes
    cache_control: str


class SafeFetch:
    """An HTTP client that follows no redirects and uses no proxies or cookies."""

    def __init__(
        self,
        resolve: Resolve = resolve_public,
        tls: ssl.SSLContext | None = None,
        timeout: float = FETCH_TIMEOUT_SECONDS,
    ) -> None:
        """Store the resolver, which checks addresses, the TLS context and the timeout."""
        self._resolve = resolve
        self._custom_tls = tls
        self._timeout = timeout

    async def get(self, url: PublicUrl) -> FetchedDocument:
        """Fetch a document.

        Raises:
            DocumentRejected: The document is unreachable, too large or not declared as JSON.
        """
        try:
            async with asyncio.timeout(self._timeout):
                return await self._fetch_from_any(await self._resolve(url.host), url)
        except TimeoutError as error:
            raise DocumentRejected("too_slow") from error
        except (httpx2.HTTPError, OSError) as error:
            raise DocumentRejected("unreachable") from error

    async def _fetch_from_any(
        self, endpoints: Sequence[Endpoint], url: PublicUrl
    ) -> FetchedDocument:
        timeout = httpx2.Timeout(self._timeout, connect=CONNECT_TIMEOUT_SECONDS)
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
        # The certificate is checked against the host name, although the connection uses an address.
        return self._custom_tls or httpx2.create_ssl_context()


async def _fetch(client: httpx2.AsyncClient, endpoint: Endpoint, url: PublicUrl) -> FetchedDocument:
    # Concatenated rather than joined: a target may begin with two slashes, like another host.
    address = f"https://{endpoint.authority}{url.target}"
    headers = {"host": url.host, "accept": "application/json", "accept-encoding": "identity"}
    extensions = {"sni_hostname": url.host}
    async with client.stream("GET", address, headers=headers, extensions=extensions) as response:
        _check_response(response)
        return FetchedDocument(
            await _read_body(response), response.headers.get("cache-control", "")
        )


def _check_response(response: httpx2.Response) -> None:
    if response.status_code in _BUSY_STATUSES:
        raise DocumentRejected("server_busy")
    if httpx2.codes.is_server_error(response.status_code):
        raise DocumentRejected("server_error")
    if response.status_code != httpx2.codes.OK:
        raise DocumentRejected("status")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise DocumentRejected("content_encoding")
    if not _JSON_MEDIA_TYPE.fullmatch(media_type(response.headers.get("content-type"))):
        raise DocumentRejected("content_type")


async def _read_body(response: httpx2.Response) -> bytes:
    body = await read_limited(response.aiter_raw(), MAX_DOCUMENT_BYTES)
    if body is None:
        raise DocumentRejected("too_large")
    return body

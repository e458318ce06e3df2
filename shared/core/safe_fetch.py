"""Fetches documents from untrusted URLs, protected against SSRF.

An untrusted URL could point to a host that only this server can reach, such as a metadata server or
a machine behind the firewall. So all addresses of the host must be public. The host is resolved
only once and the connection uses a checked address, because a second resolution could differ.
Redirects lead to untrusted URLs, too, and are checked in the same way.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urljoin

import httpx2

from shared.core.http import parse_media_type, read_limited
from shared.core.public_url import DocumentRejected, PublicUrl

if TYPE_CHECKING:
    import re
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    Resolve = Callable[[str, int], Awaitable[list["Endpoint"]]]
    """Resolves a host and a port to endpoints, to all of which a connection is allowed."""

CONNECT_TIMEOUT_SECONDS: Final = 2.0
"""The maximum time to connect to one address, in seconds, which leaves time to try another."""
MAX_ADDRESSES: Final = 3
"""The maximum number of a host's addresses that are tried."""
_BUSY_STATUSES: Final = frozenset({httpx2.codes.REQUEST_TIMEOUT, httpx2.codes.TOO_MANY_REQUESTS})
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS

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
            "2001::/23",  # protocol assignments; Teredo, which contains an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which contains an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64_PREFIX: Final = IPv6Network("64:ff9b::/96")
"""The prefix under which IPv6-only networks reach IPv4 hosts (RFC 6052)."""

# A name server that does not answer blocks only these threads, not the threads of other work.
_RESOLVER_THREADS: Final = ThreadPoolExecutor(4, "resolver")


class Endpoint(NamedTuple):
    """A network address and port to connect to."""

    address: str
    port: int

    @property
    def authority(self) -> str:
        """The endpoint as it is written in a URL."""
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )


async def resolve_public(host: str, port: int) -> list[Endpoint]:
    """Resolve a host to public endpoints, IPv4 first since not every cloud network has IPv6.

    Raises:
        DocumentRejected: The host has no address, or any of its addresses is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.run_in_executor(_RESOLVER_THREADS, _look_up, host, port)
    except OSError as error:
        raise DocumentRejected("host_unknown") from error
    return require_public_endpoints(addresses, port)


def require_public_endpoints(addresses: Iterable[str], port: int) -> list[Endpoint]:
    """Check that all addresses are public, since a mix suggests an attack, and return endpoints.

    Raises:
        DocumentRejected: An address is not public, or there are no addresses.
    """
    distinct = list(dict.fromkeys(addresses))
    if not distinct:
        raise DocumentRejected("host_unknown")
    if not all(map(is_public, distinct)):
        raise DocumentRejected("address_not_public")
    return [Endpoint(text, port) for text in sorted(distinct, key=lambda text: ":" in text)]


def is_public(text: str) -> bool:
    """Return whether a text is a unicast address of the public internet."""
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


def _look_up(host: str, port: int) -> list[str]:
    records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in records]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """What a fetcher accepts.

    Attributes:
        max_bytes: The maximum size of a document, both compressed and decompressed, in bytes.
        seconds: The maximum duration of a fetch, redirects included, in seconds.
        media_types: A pattern of the media types to accept.
        headers: The headers to send in addition to `Host` and `Accept-Encoding`.
        compressed: Whether the document may be compressed.
    """

    max_bytes: int
    seconds: float
    media_types: re.Pattern[str]
    headers: Mapping[str, str]
    max_redirects: int = 0
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A fetched document.

    Attributes:
        body: The decompressed body. Its media type is accepted, but it has not been parsed.
        url: The document's URL after redirects.
        content_type: The `Content-Type` header, or an empty string without one.
        cache_control: The `Cache-Control` header, or an empty string without one.
    """

    body: bytes
    url: PublicUrl
    content_type: str
    cache_control: str


class SafeFetch:
    """Fetches documents without proxies and cookies, within the limits of its rules."""

    def __init__(
        self,
        rules: FetchRules,
        resolve: Resolve = resolve_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Store the rules.

        Args:
            resolve: Resolves hosts, and must check their addresses.
            tls: Replaces the default TLS context.
        """
        self._rules = rules
        self._resolve = resolve
        self._custom_tls = tls

    async def get(self, url: PublicUrl) -> FetchedDocument:
        """Fetch a document.

        Raises:
            DocumentRejected: The document is unreachable, or the rules do not accept it.
        """
        try:
            async with asyncio.timeout(self._rules.seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise DocumentRejected("too_slow") from error
        except (httpx2.HTTPError, OSError) as error:
            raise DocumentRejected("unreachable") from error

    async def _follow(self, url: PublicUrl) -> FetchedDocument:
        for _ in range(self._rules.max_redirects + 1):
            endpoints = await self._resolve(url.host, url.port)
            answer = await self._fetch_from_any(endpoints, url)
            if isinstance(answer, FetchedDocument):
                return answer
            if url.scheme == "https" and answer.scheme != "https":
                raise DocumentRejected("redirect_to_http")
            url = answer
        raise DocumentRejected("redirects")

    async def _fetch_from_any(
        self, endpoints: Sequence[Endpoint], url: PublicUrl
    ) -> FetchedDocument | PublicUrl:
        """Fetch a URL from the first endpoint that accepts a connection.

        Returns:
            The document, or the URL that the server redirects to.
        """
        timeout = httpx2.Timeout(self._rules.seconds, connect=CONNECT_TIMEOUT_SECONDS)
        async with httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=timeout) as client:
            *others, last = endpoints[:MAX_ADDRESSES]
            for endpoint in others:
                try:
                    return await self._fetch(client, endpoint, url)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue
            return await self._fetch(client, last, url)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Although the connection uses an address, the certificate is checked against the host name.
        return self._custom_tls or httpx2.create_ssl_context()

    async def _fetch(
        self, client: httpx2.AsyncClient, endpoint: Endpoint, url: PublicUrl
    ) -> FetchedDocument | PublicUrl:
        # urljoin would take a target that begins with two slashes for another host.
        address = f"{url.scheme}://{endpoint.authority}{url.target}"
        encodings = "gzip, deflate" if self._rules.compressed else "identity"
        headers = {"host": url.host, **self._rules.headers, "accept-encoding": encodings}
        extensions = {"sni_hostname": url.host}
        async with client.stream(
            "GET", address, headers=headers, extensions=extensions
        ) as response:
            location = response.headers.get("location", "")
            is_redirect = response.status_code in _REDIRECT_STATUSES and bool(location)
            if self._rules.max_redirects and is_redirect:
                return _resolve_redirect(url, location)
            self._check_response(response)
            return FetchedDocument(
                await self._read_body(response),
                url,
                response.headers.get("content-type", ""),
                response.headers.get("cache-control", ""),
            )

    def _check_response(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in _BUSY_STATUSES:
            raise DocumentRejected("server_busy", status)
        if httpx2.codes.is_server_error(status):
            raise DocumentRejected("server_error", status)
        if status != httpx2.codes.OK:
            raise DocumentRejected("status", status)
        encodings = ("identity", "gzip", "deflate") if self._rules.compressed else ("identity",)
        if response.headers.get("content-encoding", "identity") not in encodings:
            raise DocumentRejected("content_encoding")
        if not self._rules.media_types.fullmatch(
            parse_media_type(response.headers.get("content-type"))
        ):
            raise DocumentRejected("content_type")

    async def _read_body(self, response: httpx2.Response) -> bytes:
        limit = self._rules.max_bytes
        body = await read_limited(response.aiter_raw(), limit)
        if body is None:
            raise DocumentRejected("too_large")
        is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        return _decompress(body, limit) if is_compressed else body


def _resolve_redirect(url: PublicUrl, location: str) -> PublicUrl:
    try:
        target = urljoin(url.text, location)
    except ValueError as error:
        raise DocumentRejected("url") from error
    return PublicUrl.of_link(target)


def _decompress(body: bytes, limit: int) -> bytes:
    """Decompress a body to at most `limit` bytes: ten megabytes may contain ten gigabytes."""
    decompressor = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        content = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise DocumentRejected("content_encoding") from error
    if len(content) > limit:
        raise DocumentRejected("too_large")
    if not decompressor.eof:
        raise DocumentRejected("content_encoding")
    return content

"""Fetching a small JSON document from where a stranger says, without doing the stranger's work.

Whoever names a URL could mean one that only we reach: a metadata server, a neighbour behind the
firewall. So the host is resolved once, each of its addresses must be public, and the connection
goes to an address that was looked at, not to the name again, which may answer otherwise by then.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import httpx2

from functions.gateway.oauth.public_addresses import resolve_public
from functions.gateway.oauth.refused import Refused

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from functions.gateway.oauth.public_addresses import Endpoint, Resolve

SECONDS: Final = 5.0
"""How long everything together may take."""
CONNECT_SECONDS: Final = 2.0
"""How long one address may take to answer, so that there is time for another."""
MOST_BYTES: Final = 64 * 1024
MOST_ADDRESSES: Final = 3
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
_MOST_URL: Final = 2_000
_MOST_HOST: Final = 253


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
            Refused: It is none.
        """
        found = _URL.fullmatch(text) if len(text) <= _MOST_URL else None
        if not found or _DOTS.search(found["path"]) or len(found["host"]) > _MOST_HOST:
            raise Refused("url")
        return cls(text, found["host"].lower(), found["path"] + (found["query"] or ""))


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was found.

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
            Refused: It cannot be had, is too large or is no JSON.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await self._from_first(await self._resolve(url.host), url)
        except TimeoutError as error:
            raise Refused("too_slow") from error
        except (httpx2.HTTPError, OSError) as error:
            raise Refused("unreachable") from error

    async def _from_first(self, endpoints: Sequence[Endpoint], url: PublicUrl) -> Fetched:
        timeout = httpx2.Timeout(self._seconds, connect=CONNECT_SECONDS)
        async with httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=timeout) as client:
            *others, last = endpoints[:MOST_ADDRESSES]
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
        raise Refused("server_busy")
    if httpx2.codes.is_server_error(response.status_code):
        raise Refused("server_error")
    if response.status_code != httpx2.codes.OK:
        raise Refused("status")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise Refused("content_encoding")
    if not _JSON.fullmatch(response.headers.get("content-type", "").partition(";")[0].strip()):
        raise Refused("content_type")


async def _body(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > MOST_BYTES:
            raise Refused("too_large")
    return bytes(body)

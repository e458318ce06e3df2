"""Clients whose id is the URL of a document that describes them.

This implements "OAuth Client ID Metadata Document"
(draft-ietf-oauth-client-id-metadata-document-02), except for one rule of its section 5.2: failures
are cached, for a minute. Otherwise a client that opens the sign-in page in a loop would make this
server send as many requests to a third party.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.auth import OAuthClientMetadata
from pydantic import ValidationError

from functions.gateway.oauth.redirect_uris import parse_redirect_uri
from shared.core.dates import utc_now
from shared.core.errors import Unavailable
from shared.core.log import log
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import FetchRules, SafeFetch

if TYPE_CHECKING:
    from datetime import datetime

    from shared.core.dates import Clock

FETCH_RULES: Final = FetchRules(
    max_bytes=64 * 1024,
    seconds=5.0,
    media_types=re.compile(r"application/(?:[a-z0-9.!#$&^_-]+\+)?json", re.IGNORECASE | re.ASCII),
    headers={"accept": "application/json"},
)
"""The limits on fetching a client's document, which is a small JSON object."""
MAX_LIFETIME: Final = timedelta(hours=1)
"""The longest time that a document is cached, even if its server allows more."""
DEFAULT_LIFETIME: Final = timedelta(minutes=15)
"""How long a document is cached if its server states no time."""
FAILURE_LIFETIME: Final = timedelta(minutes=1)
"""How long a failed lookup is cached."""
MAX_CACHED_LOOKUPS: Final = 200
"""The maximum number of cached lookups, successful or failed."""
MAX_CONCURRENT_FETCHES: Final = 16
"""The maximum number of concurrent fetches. Further ones are rejected."""
_UNREACHABLE_MESSAGE: Final = (
    "The program that sent you identifies itself by a document at its own address, but that"
    " document cannot be fetched right now. Try again in a minute."
)
_UNKNOWN_HOST_MESSAGE: Final = (
    "The program that sent you identifies itself by a document at its own address, but the server"
    " of that address does not exist. Check the address in the program's settings; if it is right,"
    " try again in a minute."
)
_BUSY_MESSAGE: Final = (
    "Too many programs are being looked up at the same time. Try again in a few seconds."
)
_TEMPORARY_ERRORS: Final = {
    "host_unknown": _UNKNOWN_HOST_MESSAGE,
    "server_busy": _UNREACHABLE_MESSAGE,
    "server_error": _UNREACHABLE_MESSAGE,
    "too_slow": _UNREACHABLE_MESSAGE,
    "unreachable": _UNREACHABLE_MESSAGE,
}
"""The messages for rejections after which a retry may succeed, by the reason of the rejection."""
_MAX_AGE: Final = re.compile(r"max-age=\"?(\d{1,9})\"?", re.ASCII)
_SECRET_FIELDS: Final = ("client_secret", "client_secret_expires_at")


@dataclass(frozen=True, slots=True)
class _Lookup:
    client: OAuthClientMetadata | None
    lifetime: timedelta
    temporary_error: str | None = None

    @classmethod
    def of(cls, error: DocumentRejected) -> _Lookup:
        return cls(None, FAILURE_LIFETIME, _TEMPORARY_ERRORS.get(error.reason))


class ClientDocuments:
    """Looks up clients by the URL of their document, with a cache."""

    def __init__(self, fetch: SafeFetch | None = None, clock: Clock = utc_now) -> None:
        """Create an empty cache; `fetch` fetches documents on demand."""
        self._fetch = fetch or SafeFetch(FETCH_RULES)
        self._clock = clock
        self._cache: OrderedDict[str, tuple[_Lookup, datetime]] = OrderedDict()
        self._fetches: dict[str, asyncio.Task[_Lookup]] = {}

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """Return the client with this id, a URL, or None if its document is not valid.

        Its `token_endpoint_auth_method` is always `none`.

        Raises:
            Unavailable: The document cannot be fetched now.
        """
        lookup = await self._fetch_lookup(client_id)
        if lookup.temporary_error:
            raise Unavailable(lookup.temporary_error, retry_after=FAILURE_LIFETIME.total_seconds())
        return lookup.client

    async def _fetch_lookup(self, client_id: str) -> _Lookup:
        lookup, expires_at = self._cache.get(client_id, (None, None))
        if lookup and expires_at and self._clock() < expires_at:
            return lookup
        try:
            task = self._fetches.get(client_id) or self._start(client_id)
        except DocumentRejected as error:
            log.warning("client_document_refused", reason=error.reason)
            return _Lookup.of(error)
        # The first caller may disconnect while others still wait for the same fetch.
        return await asyncio.shield(task)

    def _start(self, client_id: str) -> asyncio.Task[_Lookup]:
        url = PublicUrl.parse(client_id)
        if len(self._fetches) >= MAX_CONCURRENT_FETCHES:
            log.warning("client_document_refused", reason="busy")
            raise Unavailable(_BUSY_MESSAGE, retry_after=FETCH_RULES.seconds)
        task = asyncio.create_task(self._fetch_and_cache(url), name="client document")
        self._fetches[client_id] = task
        task.add_done_callback(lambda _: self._fetches.pop(client_id))
        return task

    async def _fetch_and_cache(self, url: PublicUrl) -> _Lookup:
        try:
            document = await self._fetch.get(url)
            client = parse_client(document.body, url.text)
            lookup = _Lookup(client, _parse_cache_lifetime(document.cache_control))
        except DocumentRejected as error:
            log.warning("client_document_refused", host=url.host, reason=error.reason)
            lookup = _Lookup.of(error)
        self._store(url.text, lookup)
        return lookup

    def _store(self, client_id: str, lookup: _Lookup) -> None:
        self._cache.pop(client_id, None)
        if lookup.lifetime:
            self._cache[client_id] = (lookup, self._clock() + lookup.lifetime)
        if len(self._cache) > MAX_CACHED_LOOKUPS:
            self._cache.popitem(last=False)


def parse_client(body: bytes, client_id: str) -> OAuthClientMetadata:
    """Parse the client that a document describes.

    Raises:
        DocumentRejected: The document describes no client, another client, or an unsupported one.
    """
    document = _parse_object(body)
    if document.get("client_id") != client_id:
        raise DocumentRejected("client_id")
    if any(name in document for name in _SECRET_FIELDS):
        raise DocumentRejected("client_secret")
    if not _may_be_public(document):
        raise DocumentRejected("auth_method")
    uris = document.get("redirect_uris")
    if not isinstance(uris, list) or not uris:
        raise DocumentRejected("redirect_uris")
    if not all(isinstance(uri, str) and parse_redirect_uri(uri) for uri in uris):
        raise DocumentRejected("redirect_uris")
    try:
        client = OAuthClientMetadata.model_validate(document)
    except ValidationError as error:
        raise DocumentRejected("metadata") from error
    return client.model_copy(update={"token_endpoint_auth_method": "none"})


def _may_be_public(document: dict[str, Any]) -> bool:
    """Return whether a client needs no authentication, the only method for clients with a document.

    ChatGPT prefers `private_key_jwt`, and lists `none` among the methods that it can use.
    """
    methods = document.get("token_endpoint_auth_methods_supported")
    if isinstance(methods, list) and "none" in methods:
        return True
    preferred: object = document.get("token_endpoint_auth_method", "none")
    return preferred == "none"


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DocumentRejected("json") from error
    if not isinstance(document, dict):
        raise DocumentRejected("json")
    return document


def _parse_cache_lifetime(cache_control: str) -> timedelta:
    """Parse the time to cache a document, from the directives that servers use in practice."""
    directives = [part.strip().lower() for part in cache_control.split(",")]
    if "no-store" in directives or "no-cache" in directives:
        return timedelta()
    ages = [int(match[1]) for part in directives if (match := _MAX_AGE.fullmatch(part))]
    return min(timedelta(seconds=min(ages)), MAX_LIFETIME) if ages else DEFAULT_LIFETIME

"""Clients whose id is a URL, where a document says who they are.

"OAuth Client ID Metadata Document" (draft-ietf-oauth-client-id-metadata-document-02). One rule of
its section 5.2 is broken on purpose: a failure is remembered for a minute, or whoever opens our
sign-in page in a loop would have us knock at a third party's door as often.
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

from functions.gateway.oauth.redirect_uris import allowed
from functions.gateway.oauth.safe_fetch import SECONDS, DocumentRefused, PublicUrl, SafeFetch
from shared.core.dates import utc_now
from shared.core.errors import Unavailable
from shared.core.log import log

if TYPE_CHECKING:
    from datetime import datetime

    from shared.core.dates import Clock

MAX_LIFETIME: Final = timedelta(hours=1)
"""How long a document is taken to be as it was, whatever its server says."""
DEFAULT_LIFETIME: Final = timedelta(minutes=15)
"""The same, where its server says nothing."""
FAILURE_LIFETIME: Final = timedelta(minutes=1)
"""How long a failure is remembered."""
MAX_CACHED: Final = 200
MAX_CONCURRENT: Final = 16
"""Fetches at one time; whoever comes then has to come again."""
_CLIENT: Final = "The program that sent you says who it is by a document at its own address, and"
_UNREACHABLE: Final = f"{_CLIENT} that document cannot be fetched right now. Try again in a minute."
_UNKNOWN_HOST: Final = (
    f"{_CLIENT} there is no server of that name. Check the address in the program's settings; if it"
    " is right, try again in a minute."
)
_BUSY: Final = "Too many programs are being looked up here at once. Try again in a few seconds."
_TEMPORARY: Final = {
    "host_unknown": _UNKNOWN_HOST,
    "server_busy": _UNREACHABLE,
    "server_error": _UNREACHABLE,
    "too_slow": _UNREACHABLE,
    "unreachable": _UNREACHABLE,
}
"""What to say where a reason tells nothing about the document: a later attempt may succeed."""
_MAX_AGE: Final = re.compile(r"max-age=\"?(\d{1,9})\"?", re.ASCII)
_SECRETS: Final = ("client_secret", "client_secret_expires_at")


@dataclass(frozen=True, slots=True)
class _Answer:
    client: OAuthClientMetadata | None
    lifetime: timedelta
    temporary_problem: str | None = None

    @classmethod
    def of(cls, error: DocumentRefused) -> _Answer:
        return cls(None, FAILURE_LIFETIME, _TEMPORARY.get(error.reason))


class ClientDocuments:
    """Looks clients up by the URL of their document, and remembers them for a while."""

    def __init__(self, fetch: SafeFetch | None = None, clock: Clock = utc_now) -> None:
        """Fetch with `fetch`."""
        self._fetch = fetch or SafeFetch()
        self._clock = clock
        self._cache: OrderedDict[str, tuple[_Answer, datetime]] = OrderedDict()
        self._running: dict[str, asyncio.Task[_Answer]] = {}

    async def get(self, client_id: str) -> OAuthClientMetadata | None:
        """The client with this id, a URL; None if its document is not valid.

        Its `token_endpoint_auth_method` is always `none`.

        Raises:
            Unavailable: The document cannot be had now.
        """
        answer = await self._answer(client_id)
        if answer.temporary_problem:
            raise Unavailable(
                answer.temporary_problem, retry_after=FAILURE_LIFETIME.total_seconds()
            )
        return answer.client

    async def _answer(self, client_id: str) -> _Answer:
        answer, until = self._cache.get(client_id, (None, None))
        if answer and until and self._clock() < until:
            return answer
        try:
            lookup = self._running.get(client_id) or self._start(client_id)
        except DocumentRefused as error:
            log.warning("client_document_refused", reason=error.reason)
            return _Answer.of(error)
        # The first who asks may leave before the answer comes; the others still want it.
        return await asyncio.shield(lookup)

    def _start(self, client_id: str) -> asyncio.Task[_Answer]:
        url = PublicUrl.parse(client_id)
        if len(self._running) >= MAX_CONCURRENT:
            log.warning("client_document_refused", reason="busy")
            raise Unavailable(_BUSY, retry_after=SECONDS)
        lookup = asyncio.create_task(self._look_up(url), name="client document")
        self._running[client_id] = lookup
        lookup.add_done_callback(lambda _: self._running.pop(client_id))
        return lookup

    async def _look_up(self, url: PublicUrl) -> _Answer:
        try:
            answer = await self._read(url)
        except DocumentRefused as error:
            log.warning("client_document_refused", host=url.host, reason=error.reason)
            answer = _Answer.of(error)
        self._remember(url.text, answer)
        return answer

    async def _read(self, url: PublicUrl) -> _Answer:
        fetched = await self._fetch.get(url)
        return _Answer(client_in(fetched.body, url.text), _lifetime(fetched.cache_control))

    def _remember(self, client_id: str, answer: _Answer) -> None:
        self._cache.pop(client_id, None)
        if answer.lifetime:
            self._cache[client_id] = (answer, self._clock() + answer.lifetime)
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)


def client_in(body: bytes, client_id: str) -> OAuthClientMetadata:
    """The client that a document describes.

    Raises:
        DocumentRefused: It describes none, another, or one that we cannot serve.
    """
    document = _object(body)
    if document.get("client_id") != client_id:
        raise DocumentRefused("client_id")
    if any(name in document for name in _SECRETS):
        raise DocumentRefused("client_secret")
    if document.get("token_endpoint_auth_method", "none") != "none":
        raise DocumentRefused("auth_method")
    uris = document.get("redirect_uris")
    if not isinstance(uris, list) or not uris:
        raise DocumentRefused("redirect_uris")
    if not all(isinstance(uri, str) and allowed(uri) for uri in uris):
        raise DocumentRefused("redirect_uris")
    try:
        client = OAuthClientMetadata.model_validate(document)
    except ValidationError as error:
        raise DocumentRefused("metadata") from error
    return client.model_copy(update={"token_endpoint_auth_method": "none"})


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DocumentRefused("json") from error
    if not isinstance(document, dict):
        raise DocumentRefused("json")
    return document


def _lifetime(cache_control: str) -> timedelta:
    """How long to keep a document; of all that HTTP caching knows, what servers say in practice."""
    directives = [part.strip().lower() for part in cache_control.split(",")]
    if "no-store" in directives or "no-cache" in directives:
        return timedelta()
    ages = [int(match[1]) for part in directives if (match := _MAX_AGE.fullmatch(part))]
    return min(timedelta(seconds=min(ages)), MAX_LIFETIME) if ages else DEFAULT_LIFETIME

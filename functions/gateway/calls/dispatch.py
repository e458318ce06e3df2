"""From the gateway to a tool. In the cloud that is another function, reached over HTTPS.

Only the gateway's account may invoke it, and proves by a Google ID token that it is the gateway.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import httpx2
from pydantic import ValidationError

from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import PlatformFault, Unavailable
from shared.core.log import log, traceparent_header
from shared.runtime.messages import CallAnswer
from shared.runtime.outage_advice import RETRY_AFTER, WriteState, outage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from google.oauth2.credentials import Credentials

    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallRequest

BROKEN: Final = frozenset({Unavailable.code, PlatformFault.code})
"""Codes by which a function that answers says that it does not work."""
GRACE: Final = 1.0
"""Seconds past a call's deadline, which the tool keeps itself, for its answer to arrive."""


class Dispatcher(Protocol):
    """Takes a call to its tool and brings back the answer."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run the call. Whatever happens on the way becomes an answer too."""
        ...

    async def health(self) -> dict[str, str]:
        """What each part that calls depend on says of itself: `ok`, or what is wrong."""
        ...


class HttpDispatcher:
    """Calls each tool's own function, with a Google ID token where it is reached over HTTPS.

    A function that keeps failing is left alone for a while: its calls are refused at once.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        tokens: IdTokens | None = None,
        names: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reach the tools at these URLs.

        Args:
            urls: Of each tool's function, by name.
            tokens: Prove to them who calls.
            names: Tools that there should be: those without a URL are missed, and URLs of others
                are left alone. None: those of the URLs.
            clock: Seconds, by which functions are left alone.
        """
        self._names = urls.keys() if names is None else names
        self._urls = {name: url for name, url in urls.items() if name in self._names}
        self._tokens = tokens or IdTokens()
        self._breakers = {name: CircuitBreaker(name, clock) for name in self._urls}
        # Whole calls are timed below: a tool that drips may keep each single read short.
        self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=3))

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Post the call to the tool's function, unless that has been failing."""
        url, breaker = self._urls.get(tool.name), self._breakers.get(tool.name)
        if url is None or breaker is None:
            log.error("tool_without_url", tool=tool.name)
            return CallAnswer.failed(PlatformFault(f"{tool.name} is not deployed."))
        try:
            with breaker.attempt() as attempt:
                answer, attempt.well = await self._try(url, tool, request)
        except Unavailable as error:
            return _unreachable(tool, request, WriteState.NOTHING_DONE, error.retry_after)
        return answer

    async def health(self) -> dict[str, str]:
        """Ask every tool's function how it is."""
        states = await asyncio.gather(*(self._health(url) for url in self._urls.values()))
        missing = dict.fromkeys(self._names, "not deployed")
        return missing | dict(zip(self._urls, states, strict=True))

    async def _try(
        self, url: str, tool: Declaration, request: CallRequest
    ) -> tuple[CallAnswer, bool | None]:
        """What there is to say of a call, and whether the function is well, if that was learned."""
        sent = False
        try:
            async with asyncio.timeout(max(0, request.deadline - time.time()) + GRACE):
                headers = await self._tokens.header(url)
                sent = True
                response = await self._post(url, request, headers)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            reason = type(error).__name__
            log.warning("tool_unreachable", tool=tool.name, call_id=request.call_id, error=reason)
            never_sent = not sent or isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            outcome = WriteState.NOTHING_DONE if never_sent else WriteState.UNKNOWN
            return _unreachable(tool, request, outcome), False
        return _read(response, tool, request)

    async def _post(
        self, url: str, request: CallRequest, headers: Mapping[str, str]
    ) -> httpx2.Response:
        return await self._client.post(
            url,
            content=request.model_dump_json().encode(),  # the client would keep both
            headers={"content-type": "application/json", **headers, **traceparent_header()},
        )

    async def _health(self, url: str) -> str:
        try:
            async with asyncio.timeout(5):
                response = await self._client.get(url, headers=await self._tokens.header(url))
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            return f"unreachable ({type(error).__name__})"
        return "ok" if response.status_code == httpx2.codes.OK else f"HTTP {response.status_code}"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _read(
    response: httpx2.Response, tool: Declaration, request: CallRequest
) -> tuple[CallAnswer, bool | None]:
    broken = httpx2.codes.is_server_error(response.status_code)
    try:
        answer = CallAnswer.model_validate_json(response.content)
    except ValidationError:
        status = response.status_code
        log.warning("tool_unreachable", tool=tool.name, call_id=request.call_id, status=status)
        # The front end refuses with 4xx whom and what it does not let through to the function.
        refused = httpx2.codes.is_client_error(status)
        outcome = WriteState.NOTHING_DONE if refused else WriteState.UNKNOWN
        return _unreachable(tool, request, outcome), False if broken else None
    failing = broken and answer.error is not None and answer.error.code in BROKEN
    return answer, not failing


def _unreachable(
    tool: Declaration, request: CallRequest, outcome: WriteState, retry_after: float | None = None
) -> CallAnswer:
    problem = f"{tool.name} is temporarily unreachable"
    return CallAnswer.failed(
        outage_error(tool, request, problem, outcome, retry_after or RETRY_AFTER)
    )


class IdTokens:
    """Fetches a token per function from the metadata server, and keeps it until it expires."""

    def __init__(self) -> None:
        """Fetch nothing yet."""
        self._credentials: dict[str, Credentials] = {}

    async def header(self, url: str) -> dict[str, str]:
        """The `Authorization` header for a function; none over plain HTTP, which stays on a laptop.

        Raises:
            OSError: No token can be had.
        """
        if urlsplit(url).scheme != "https":
            return {}
        return {"authorization": f"Bearer {await asyncio.to_thread(self._token, url)}"}

    def _token(self, audience: str) -> str:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
        from google.oauth2 import id_token

        fetch: Any = id_token.fetch_id_token_credentials  # the library has no types

        try:
            credentials = self._credentials.get(audience) or fetch(audience)
            if not credentials.valid:
                credentials.refresh(Request())
        except (GoogleAuthError, KeyError, ValueError) as error:
            # What is no token at all escapes the library as a KeyError or a ValueError.
            raise OSError("no ID token from Google") from error
        self._credentials[audience] = credentials
        return str(credentials.token)

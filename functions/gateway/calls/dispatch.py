"""Dispatch of calls to tools. In the cloud, each tool is a function of its own, called over HTTPS.

Only the gateway's service account may invoke these functions. A Google ID token is its proof.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import httpx2
from pydantic import ValidationError

from shared.core import telemetry
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import PlatformFault, Unavailable
from shared.core.log import log, make_traceparent_header
from shared.core.telemetry import SpanKind
from shared.runtime.messages import CallAnswer
from shared.runtime.outage_advice import RETRY_AFTER_SECONDS, WriteState, make_outage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from google.oauth2.credentials import Credentials

    from functions.gateway.catalog import Declaration
    from shared.core.settings import Settings
    from shared.runtime.messages import CallRequest

FAILURE_CODES: Final = frozenset({Unavailable.code, PlatformFault.code})
"""An error with one of these codes means that the function itself is failing."""
GRACE_SECONDS: Final = 1.0
"""How long the gateway still waits after the deadline, which the tool itself enforces."""


class Dispatcher(Protocol):
    """Sends a call to its tool and returns the answer."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run the call. A failure to reach the tool becomes an answer, too."""
        ...

    async def health(self) -> dict[str, str]:
        """Return the state of each part that calls depend on: `ok`, or the problem."""
        ...


class HttpDispatcher:
    """Calls each tool's own function, with a Google ID token if the URL is HTTPS.

    While a function keeps failing, its circuit breaker rejects calls without sending them.
    """

    def __init__(
        self,
        settings: Settings,
        tokens: IdTokens | None = None,
        names: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the URLs of the functions; no connection is opened yet.

        Args:
            names: The tools that should exist, by default those with a URL. A tool without a URL is
                reported as not deployed, and the URL of any other tool is ignored.
            clock: Monotonic seconds, for the circuit breakers.
        """
        urls = settings.tool_urls
        self._names = urls.keys() if names is None else names
        self._urls = {name: url for name, url in urls.items() if name in self._names}
        self._tokens = tokens or IdTokens()
        self._breakers = {
            name: CircuitBreaker(
                name, clock, settings.circuit_failure_threshold, settings.circuit_recovery_timeout
            )
            for name in self._urls
        }
        # Calls have a total timeout below, since a slow drip would satisfy a timeout per read.
        self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=3))

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Post the call to the tool's function, unless its circuit breaker is open."""
        url, breaker = self._urls.get(tool.name), self._breakers.get(tool.name)
        if url is None or breaker is None:
            log.error("tool_without_url", tool=tool.name)
            return CallAnswer.failed(PlatformFault(f"{tool.name} is not deployed."))
        try:
            with breaker.attempt() as attempt:
                answer, attempt.healthy = await self._send(url, tool, request)
        except Unavailable as error:
            return _make_unreachable_answer(
                tool, request, WriteState.NOTHING_DONE, error.retry_after
            )
        return answer

    async def health(self) -> dict[str, str]:
        """Request the health of every tool's function."""
        states = await asyncio.gather(*(self._check_health(url) for url in self._urls.values()))
        default_states = dict.fromkeys(self._names, "not deployed")
        return default_states | dict(zip(self._urls, states, strict=True))

    async def _send(
        self, url: str, tool: Declaration, request: CallRequest
    ) -> tuple[CallAnswer, bool | None]:
        """Return the answer, and whether the function is healthy, or None if that is unclear."""
        is_sent = False
        try:
            async with asyncio.timeout(max(0, request.deadline - time.time()) + GRACE_SECONDS):
                headers = await self._tokens.authorization(url)
                is_sent = True
                response = await self._post(url, request, headers)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            reason = type(error).__name__
            log.warning("tool_unreachable", tool=tool.name, call_id=request.call_id, error=reason)
            never_sent = not is_sent or isinstance(
                error, httpx2.ConnectError | httpx2.ConnectTimeout
            )
            write_state = WriteState.NOTHING_DONE if never_sent else WriteState.UNKNOWN
            return _make_unreachable_answer(tool, request, write_state), False
        return _parse_response(response, tool, request)

    async def _post(
        self, url: str, request: CallRequest, headers: Mapping[str, str]
    ) -> httpx2.Response:
        attributes = {"http.request.method": "POST", "server.address": urlsplit(url).hostname}
        with telemetry.span("POST", attributes, kind=SpanKind.CLIENT) as span:
            response = await self._client.post(
                url,
                content=request.model_dump_json().encode(),  # bytes: the client would keep both
                headers={
                    "content-type": "application/json",
                    **headers,
                    **make_traceparent_header(),
                },
            )
            span.set({"http.response.status_code": response.status_code})
            if response.is_error:
                span.fail(str(response.status_code))
            return response

    async def _check_health(self, url: str) -> str:
        try:
            async with asyncio.timeout(5):
                response = await self._client.get(
                    url, headers=await self._tokens.authorization(url)
                )
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            return f"unreachable ({type(error).__name__})"
        return "ok" if response.status_code == httpx2.codes.OK else f"HTTP {response.status_code}"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _parse_response(
    response: httpx2.Response, tool: Declaration, request: CallRequest
) -> tuple[CallAnswer, bool | None]:
    """Return the answer in a response, and whether the function is healthy, as `_send` does."""
    is_server_error = httpx2.codes.is_server_error(response.status_code)
    try:
        answer = CallAnswer.model_validate_json(response.content)
    except ValidationError:
        status = response.status_code
        log.warning("tool_unreachable", tool=tool.name, call_id=request.call_id, status=status)
        # Cloud Run's front end answers 4xx to a request that it does not pass to the function.
        is_rejected = httpx2.codes.is_client_error(status)
        write_state = WriteState.NOTHING_DONE if is_rejected else WriteState.UNKNOWN
        unreachable_answer = _make_unreachable_answer(tool, request, write_state)
        return unreachable_answer, False if is_server_error else None
    is_failing = is_server_error and answer.error and answer.error.code in FAILURE_CODES
    return answer, not is_failing


def _make_unreachable_answer(
    tool: Declaration,
    request: CallRequest,
    write_state: WriteState,
    retry_after: float | None = None,
) -> CallAnswer:
    problem = f"{tool.name} is temporarily unreachable"
    return CallAnswer.failed(
        make_outage_error(tool, request, problem, write_state, retry_after or RETRY_AFTER_SECONDS)
    )


class IdTokens:
    """ID tokens from the metadata server, one per function, cached until they expire."""

    def __init__(self) -> None:
        self._credentials: dict[str, Credentials] = {}

    async def authorization(self, url: str) -> dict[str, str]:
        """Return the `Authorization` header for a function, or none over plain HTTP (on a laptop).

        Raises:
            OSError: The metadata server returned no token.
        """
        if urlsplit(url).scheme != "https":
            return {}
        return {"authorization": f"Bearer {await asyncio.to_thread(self._fetch_token, url)}"}

    def _fetch_token(self, audience: str) -> str:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
        from google.oauth2 import id_token

        fetch: Any = id_token.fetch_id_token_credentials  # the library has no types

        try:
            credentials = self._credentials.get(audience) or fetch(audience)
            if not credentials.valid:
                credentials.refresh(Request())
        except (GoogleAuthError, KeyError, ValueError) as error:
            # The library raises KeyError or ValueError for a response that is not a token.
            raise OSError("no ID token from Google") from error
        self._credentials[audience] = credentials
        return str(credentials.token)

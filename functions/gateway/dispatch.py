"""From the gateway to a tool. In the cloud that is another function, reached over HTTPS."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

import httpx2
from pydantic import ValidationError

from functions.gateway.id_tokens import IdTokens
from shared.call import CallAnswer
from shared.errors import PlatformFault, Unavailable
from shared.logs import log
from shared.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from functions.gateway.catalog import Declaration
    from shared.call import CallRequest
    from shared.errors import CarrelError

RETRY_AFTER = 5.0
"""Seconds after which calling a dead function again makes sense: instances start in less."""


class Dispatcher(Protocol):
    """Takes a call to its tool and brings back the answer."""

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run the call. Whatever happens on the way becomes an answer too."""
        ...

    async def health(self) -> dict[str, str]:
        """What each part that calls depend on says of itself: `ok`, or what is wrong."""
        ...


class HttpDispatcher:
    """Calls each tool's own function, with a Google ID token where it is reached over HTTPS."""

    def __init__(
        self,
        urls: Mapping[str, str],
        tokens: IdTokens | None = None,
        names: Collection[str] = (),
    ) -> None:
        """Reach the tools at these URLs, by name; those of `names` that have none are missed."""
        self._names = names
        self._urls = urls
        self._tokens = tokens or IdTokens()
        # Whole calls are timed below: a tool that drips may keep each single read short.
        self._client = httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=3))

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Post the call to the tool's function."""
        try:
            return await self._post(tool, request)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            log.warning("tool_unreachable", tool=tool.name, error=type(error).__name__)
            return _failure(_unreachable(tool))

    async def health(self) -> dict[str, str]:
        """Ask every tool's function how it is."""
        states = await asyncio.gather(*(self._health(url) for url in self._urls.values()))
        missing = dict.fromkeys(self._names, "not deployed")
        return missing | dict(zip(self._urls, states, strict=True))

    async def _post(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        url = self._urls.get(tool.name)
        if url is None:
            log.error("tool_without_url", tool=tool.name)
            return _failure(PlatformFault(f"{tool.name} is not deployed."))
        # The tool keeps the deadline itself; a second more lets its own answer arrive.
        async with asyncio.timeout(max(0, request.deadline - time.time()) + 1):
            response = await self._client.post(
                url,
                content=request.model_dump_json(),
                headers={"content-type": "application/json", **await self._tokens.header(url)},
            )
        try:
            return CallAnswer.model_validate_json(response.content)
        except ValidationError:
            log.warning("tool_unreachable", tool=tool.name, status=response.status_code)
            return _failure(_unreachable(tool))

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


def _unreachable(tool: Declaration) -> Unavailable:
    advice = (
        f"Go on without it, or call it again in {RETRY_AFTER:.0f} s."
        if tool.effect is Effect.READ
        else "Whether it did anything is unknown: look before you call it again."
    )
    message = f"{tool.name} is temporarily unreachable. {advice}"
    return Unavailable(message, details={"tool": tool.name}, retry_after=RETRY_AFTER)


def _failure(error: CarrelError) -> CallAnswer:
    return CallAnswer(error=error.to_wire())

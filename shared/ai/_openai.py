"""Requests to an endpoint that speaks OpenAI's wire format, and what its answers mean to us.

Nothing that the endpoint says of an error leaves this module: it can quote what was sent. For the
same reason our errors are raised after the `except` block, where Python would chain the original.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from shared.ai.embedding import unit_vector
from shared.ai.retrying import ATTEMPTS_IN_TIME
from shared.core.dates import utc_now
from shared.core.errors import (
    CarrelError,
    Forbidden,
    PaymentRequired,
    PlatformFault,
    RateLimited,
    Unavailable,
)
from shared.core.http import MAX_RETRY_AFTER, parse_retry_after
from shared.core.log import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2
    from pydantic import SecretStr

    from shared.ai.embedding import Vector
    from shared.core.circuit_breaker import CircuitBreaker

_OUT_OF_QUOTA = ("insufficient_quota", "insufficient_user_quota")
"""What OpenAI, and One API, call an account with nothing left; neither says 402."""
_REFUSED_INPUT = frozenset({400, 413, 422})
_REFUSED_KEY = frozenset({401, 403})
_REFUSES_ANY = "it refuses any text: check model, dimension, and whether vectors can be shortened"
_ADVICE = {
    400: _REFUSES_ANY,
    401: "give it a key that it accepts",
    402: "its account has no quota left: top it up",
    403: "give it a key that may use the model",
    404: "check the base URL, which ends before /embeddings, and the name of the model",
    413: _REFUSES_ANY,
    422: _REFUSES_ANY,
}


@dataclass(frozen=True)
class EndpointKey:
    """What a request is authorised with.

    Attributes:
        secret: The key; None where the endpoint wants none.
        callers: Whether it is the caller's own, and not the deployment's.
    """

    secret: SecretStr | None
    callers: bool

    @property
    def headers(self) -> dict[str, str]:
        """How to send it."""
        return {"authorization": f"Bearer {self.secret.get_secret_value()}"} if self.secret else {}

    @property
    def fits_a_header(self) -> bool:
        """Whether it can be sent at all; the client's words on one that cannot might quote it."""
        text = self.secret.get_secret_value() if self.secret else ""
        return text.isascii() and text.isprintable() and " " not in text


@dataclass
class OpenAIEndpoint:
    """A model at an address, whoever asks it."""

    url: str
    model: str
    dimension: int
    shortens: bool
    time_limit: float
    concurrency: int
    breaker: CircuitBreaker

    async def ask(self, texts: Sequence[str], key: EndpointKey) -> httpx2.Response:
        """Exchange one request for one answer, of whatever status.

        Raises:
            TimeoutError: It takes too long.
            Unavailable: It cannot be reached.
            PlatformFault: Its address is none, or its answer cannot be decoded.
        """
        import httpx2

        if not key.fits_a_header:
            raise self._refused_key(401, key)
        failure: CarrelError
        try:
            async with asyncio.timeout(self.time_limit / ATTEMPTS_IN_TIME):
                return await self._client.post(
                    self.url, headers=key.headers, json=self._request(texts)
                )
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            failure = self.misconfigured(404)
        except httpx2.TransportError:
            failure = Unavailable("The embeddings endpoint cannot be reached: try again later.")
        except httpx2.HTTPError:
            failure = self._nonsense("The embeddings endpoint answered what cannot be decoded.")
        raise failure

    def meaning(self, response: httpx2.Response, key: EndpointKey) -> Exception:
        """What it means to our caller that the endpoint does not answer with vectors."""
        status = response.status_code
        if status == 402 or (400 < status < 500 and _is_out_of_quota(response.content)):  # noqa: PLR2004 - HTTP statuses
            return self._out_of_quota(key)
        if status in {408, 429} or response.is_server_error:
            return _busy(response, key)
        if status in _REFUSED_INPUT:
            return RefusedTexts(status)
        return self._refused_key(status, key)

    def vectors(self, response: httpx2.Response, count: int) -> list[Vector]:
        """Read one vector for each of so many texts, in their order.

        Raises:
            PlatformFault: They are not in the answer.
        """
        try:
            answer = _Answer.model_validate_json(response.content)
        except ValidationError:
            answer = None
        if answer is None:
            raise self._nonsense("The embeddings endpoint answered what cannot be read.")
        items = sorted(answer.data, key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)):
            raise self._nonsense(
                f"The embeddings endpoint answered {len(items)} vectors that are not one for each "
                f"of {count} texts."
            )
        try:
            return [unit_vector(item.embedding, self.dimension) for item in items]
        except PlatformFault as fault:
            raise self._nonsense(fault.message) from None

    def misconfigured(self, status: int) -> PlatformFault:
        """The endpoint refuses this deployment, and the log says what to do."""
        advice = _ADVICE.get(status, "check the base URL")
        log.error("embeddings_refused", model=self.model, status=status, advice=advice)
        return PlatformFault(f"The embeddings endpoint refuses this deployment ({status}).")

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        length = {"dimensions": self.dimension} if self.shortens else {}
        return {"model": self.model, "input": list(texts), "encoding_format": "float", **length}

    def _refused_key(self, status: int, key: EndpointKey) -> CarrelError:
        if key.callers and status in _REFUSED_KEY:
            return Forbidden(
                "The embeddings endpoint refused your key, with which this call embeds. Call with "
                "a key that the embeddings endpoint accepts."
            )
        return self.misconfigured(status)

    def _out_of_quota(self, key: EndpointKey) -> CarrelError:
        if key.callers:
            return PaymentRequired(
                "Your account at the embeddings endpoint has no quota left. Top it up there, or "
                "call with the key of another account."
            )
        log.error("embeddings_refused", model=self.model, status=402, advice=_ADVICE[402])
        message = "The embeddings endpoint has no quota left for this deployment: try again later."
        return Unavailable(message, retry_after=MAX_RETRY_AFTER)

    def _nonsense(self, message: str) -> PlatformFault:
        """An answer of no use; the message holds numbers, and nothing that was answered."""
        log.error("embeddings_unreadable", model=self.model, reason=message)
        return PlatformFault(message)

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        """Whole exchanges are timed above: an endpoint that drips may keep each read short.

        No cookie is kept: it would follow one caller's answer into the next one's request.
        """
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx2.AsyncClient(timeout=None, cookies=no_cookies)


class RefusedTexts(Exception):
    """The endpoint refuses what was sent, for what it is."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Item(BaseModel, strict=True):
    index: int
    embedding: list[float]


class _Answer(BaseModel, strict=True):
    data: list[_Item]


class _ErrorAnswer(BaseModel):
    error: dict[str, Any]


def _is_out_of_quota(content: bytes) -> bool:
    try:
        error = _ErrorAnswer.model_validate_json(content).error
    except ValidationError:
        return False
    return any(error.get(name) in _OUT_OF_QUOTA for name in ("code", "type"))


def _busy(response: httpx2.Response, key: EndpointKey) -> CarrelError:
    wait = parse_retry_after(response.headers.get("retry-after", ""), utc_now())
    if key.callers and response.status_code == 429:  # noqa: PLR2004 - Too Many Requests
        message = "The embeddings endpoint throttles your key: try again later."
        return RateLimited(message, retry_after=wait)
    message = "The embeddings endpoint is busy or failing: try again later."
    return Unavailable(message, retry_after=wait)

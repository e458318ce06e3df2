"""Requests to an endpoint with OpenAI's API: OpenAI itself, a gateway, vLLM, LM Studio or Ollama.

Error messages of the endpoint do not leave this module, since they can quote what was sent. For the
same reason, this module raises its errors after the `except` block, inside which Python would chain
the original error.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

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
    from collections.abc import Mapping

    import httpx2
    from pydantic import SecretStr

_OUT_OF_QUOTA: Final = ("insufficient_quota", "insufficient_user_quota")
"""OpenAI and One API report an account without quota by these codes, not by status 402."""
_INPUT_STATUSES: Final = frozenset({400, 413, 422})
_KEY_STATUSES: Final = frozenset({401, 403})
_ADVICE: Final = {
    401: "give it a key that it accepts",
    402: "its account has no quota left: top it up",
    403: "give it a key that may use the model",
    404: "check the base URL, which ends before /{path}, and the name of the model",
}


class RejectedRequest(Exception):
    """The endpoint rejects a request for what it contains."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Key:
    """The key that authorizes a request.

    Attributes:
        secret: The key, or None if the endpoint needs none.
        belongs_to_caller: Whether this is the caller's key, not the deployment's.
    """

    secret: SecretStr | None
    belongs_to_caller: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key, if there is one."""
        return {"authorization": f"Bearer {self.secret.get_secret_value()}"} if self.secret else {}

    @property
    def is_valid_in_header(self) -> bool:
        """Whether a header can carry the key. If not, the HTTP client's error might quote it."""
        text = self.secret.get_secret_value() if self.secret else ""
        return text.isascii() and text.isprintable() and " " not in text


@dataclass
class OpenAIEndpoint:
    """A model at an endpoint, for requests with any key.

    Attributes:
        kind: What the endpoint is for, in messages and events of the log.
        base_url: The address without `path`.
        path: The path of requests, such as `embeddings`.
        time_limit: The seconds that all attempts of a call may take together.
        rejection_advice: What to check if the endpoint rejects every text.
    """

    kind: str
    base_url: str
    path: str
    model: str
    time_limit: float
    rejection_advice: str

    async def send(
        self,
        body: Mapping[str, Any],
        key: Key,
        deadline: float,
        slots: AbstractAsyncContextManager[object] = nullcontext(),  # noqa: B008 - has no state
    ) -> bytes:
        """Make one attempt, and return what the endpoint answers.

        Args:
            deadline: When to give up, on the event loop's clock.
            slots: Limits how many requests run at once. The deadline includes the wait for a slot.

        Raises:
            RejectedRequest: The endpoint rejects what the body contains.
            Unavailable: The endpoint is down, slow or out of quota.
            PlatformFault: The endpoint is configured wrongly, or its answer cannot be decoded.
            Forbidden, PaymentRequired, RateLimited: The endpoint rejects the caller's key.
        """
        try:
            async with asyncio.timeout_at(deadline), slots:
                response = await self._post(body, key)
        except TimeoutError:
            # The time includes the wait for a slot, so the endpoint may be slow or only busy.
            message = f"The {self.kind} endpoint did not answer in time: try again later."
            raise Unavailable(message) from None
        if not response.is_success:
            raise self._map_error(response, key)
        return response.content

    def make_configuration_error(self, status: int) -> PlatformFault:
        """Log advice for the operator, and make the error for a rejected deployment."""
        if status in _INPUT_STATUSES:
            advice = f"it rejects every text: {self.rejection_advice}"
        else:
            advice = _ADVICE.get(status, "check the base URL").format(path=self.path)
        log.error(f"{self.kind}_refused", model=self.model, status=status, advice=advice)
        return PlatformFault(
            f"The {self.kind} endpoint rejects this deployment ({status}): {advice}."
        )

    def make_invalid_answer_error(self, problem: str) -> PlatformFault:
        """Log and make the error for an invalid answer. The problem must not quote the answer."""
        message = f"The {self.kind} endpoint sent {problem}."
        log.error(f"{self.kind}_unreadable", model=self.model, reason=message)
        return PlatformFault(message)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _post(self, body: Mapping[str, Any], key: Key) -> httpx2.Response:
        """Send one request, and return the response whatever its status. See `send`."""
        import httpx2

        if not key.is_valid_in_header:
            raise self._make_rejection_error(401, key)
        url = f"{self.base_url.rstrip('/')}/{self.path}"
        failure: CarrelError
        try:
            async with asyncio.timeout(self.time_limit / ATTEMPTS_IN_TIME):
                return await self._client.post(url, headers=key.headers, json=body)
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            failure = self.make_configuration_error(404)
        except httpx2.TransportError:
            failure = Unavailable(f"The {self.kind} endpoint cannot be reached: try again later.")
        except httpx2.HTTPError:
            failure = self.make_invalid_answer_error("an answer that cannot be decoded")
        raise failure

    def _map_error(self, response: httpx2.Response, key: Key) -> Exception:
        """Make the error for an unsuccessful response, and log it if the operator must act."""
        status = response.status_code
        if status == 402 or (400 <= status < 500 and _is_out_of_quota(response.content)):  # noqa: PLR2004 - HTTP statuses
            return self._make_quota_error(key)
        if status in {408, 429} or response.is_server_error:
            return self._make_busy_error(response, key)
        if status in _INPUT_STATUSES:
            return RejectedRequest(status)
        return self._make_rejection_error(status, key)

    def _make_rejection_error(self, status: int, key: Key) -> CarrelError:
        if key.belongs_to_caller and status in _KEY_STATUSES:
            return Forbidden(
                f"The {self.kind} endpoint rejected your key, with which this call embeds. Call"
                " with a key that the endpoint accepts."
            )
        return self.make_configuration_error(status)

    def _make_quota_error(self, key: Key) -> CarrelError:
        if key.belongs_to_caller:
            return PaymentRequired(
                f"Your account at the {self.kind} endpoint has no quota left. Top it up there, or"
                " call with the key of another account."
            )
        log.error(f"{self.kind}_refused", model=self.model, status=402, advice=_ADVICE[402])
        message = (
            f"The {self.kind} endpoint has no quota left for this deployment: try again later."
        )
        return Unavailable(message, retry_after=MAX_RETRY_AFTER)

    def _make_busy_error(self, response: httpx2.Response, key: Key) -> CarrelError:
        wait = parse_retry_after(response.headers.get("retry-after", ""), utc_now())
        if key.belongs_to_caller and response.status_code == 429:  # noqa: PLR2004 - Too Many Requests
            message = f"The {self.kind} endpoint throttles your key: try again later."
            return RateLimited(message, retry_after=wait)
        message = f"The {self.kind} endpoint is busy or failing: try again later."
        return Unavailable(message, retry_after=wait)

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        """The HTTP client.

        It accepts no cookies, which would carry over to other callers' requests. It has no timeout,
        because an endpoint that sends slowly would stay within a limit for each read. Instead,
        `_post` limits the whole exchange.
        """
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx2.AsyncClient(timeout=None, cookies=no_cookies)


class _ErrorAnswer(BaseModel):
    error: dict[str, Any]


def _is_out_of_quota(content: bytes) -> bool:
    try:
        error = _ErrorAnswer.model_validate_json(content).error
    except ValidationError:
        return False
    return any(error.get(name) in _OUT_OF_QUOTA for name in ("code", "type"))

"""Calls to Vertex AI: what is worth trying again, and what an error means to our caller.

The client's own retries ignore Retry-After, so they stay off. Nothing of an error's text leaves
this module: a refusal can quote what was sent. For the same reason our errors are raised after the
`except` block, where Python would chain the original to them.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

import httpx2
from google.auth import exceptions as auth
from google.genai import errors

from shared.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from shared.logs import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")

_RETRY_AFTER = 10.0
"""Seconds to suggest to a caller when Vertex AI didn't say."""

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 8.0
_ADVICE = {
    401: "its service account needs credentials that Google accepts",
    403: "grant its service account roles/aiplatform.user and enable aiplatform.googleapis.com",
    404: "check the names of the model and of the location that serves it",
}


async def persist(
    attempt: Callable[[], Awaitable[Answer]], *, deadline: float, refused: InvalidInput
) -> Answer:
    """Attempt a call until it succeeds, fails for good, or the next pause would pass the deadline.

    Pauses double from a quarter of a second to eight, with jitter, on top of what Retry-After asks.

    Args:
        attempt: One call through the google-genai client.
        deadline: When to stop, on the event loop's clock.
        refused: What to raise when the content is refused.

    Raises:
        Unavailable: Vertex AI is down, slow or out of quota.
        InvalidInput: `refused`.
        PlatformFault: Vertex AI is set up wrongly for us, or answers what it shouldn't.
    """
    backoff = _FIRST_PAUSE
    while True:
        try:
            return await _once(attempt, deadline, refused)
        except Unavailable as failure:
            pause = (failure.retry_after or 0) + backoff * random.uniform(0.5, 1)  # noqa: S311 - jitter
            if asyncio.get_running_loop().time() + pause > deadline:
                failure.retry_after = failure.retry_after or _RETRY_AFTER
                raise
        await asyncio.sleep(pause)
        backoff = min(2 * backoff, _LONGEST_PAUSE)


async def _once(
    attempt: Callable[[], Awaitable[Answer]], deadline: float, refused: InvalidInput
) -> Answer:
    failure: CarrelError
    try:
        async with asyncio.timeout_at(deadline):
            return await attempt()
    except errors.APIError as error:
        failure = _meaning(error, refused)
    except TimeoutError:
        failure = Unavailable("Vertex AI is too slow: try again later.")
    except (httpx2.TransportError, auth.TransportError):
        failure = Unavailable("Vertex AI cannot be reached: try again later.")
    except auth.GoogleAuthError as error:
        failure = _misconfigured(401) if not error.retryable else _busy(None)
    except ValueError:
        failure = PlatformFault("Vertex AI answered something that cannot be read.")
    raise failure


def _meaning(error: errors.APIError, refused: InvalidInput) -> CarrelError:
    if error.code in _TRANSIENT:
        return _busy(error)
    if error.code == httpx2.codes.BAD_REQUEST and error.status == "INVALID_ARGUMENT":
        return refused
    return _misconfigured(error.code)


def _busy(error: errors.APIError | None) -> Unavailable:
    """Retry-After as a date is not read: Google sends seconds."""
    asked = error.response.headers.get("retry-after", "") if error else ""
    wait = float(asked) if asked.isdecimal() else None
    return Unavailable("Vertex AI is busy or failing: try again later.", retry_after=wait)


def _misconfigured(status: int) -> PlatformFault:
    log.error("vertex_refused", status=status, advice=_ADVICE.get(status))
    return PlatformFault(f"Vertex AI refuses this deployment ({status}).")

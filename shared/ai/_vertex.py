"""Calls to Vertex AI: what is worth trying again, and what an error means to our caller.

The client's own retries ignore Retry-After, so they stay off. Nothing of an error's text leaves
this module: a refusal can quote what was sent. For the same reason our errors are raised after the
`except` block, where Python would chain the original to them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import httpx2
from google.auth import exceptions as auth
from google.genai import errors

from shared.core.dates import utc_now
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from shared.core.http import parse_retry_after, retry_with_backoff
from shared.core.log import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_ADVICE = {
    401: "its service account needs credentials that Google accepts",
    403: "grant its service account roles/aiplatform.user and enable aiplatform.googleapis.com",
    404: "check the names of the model and of the location that serves it",
}


async def call(
    attempt: Callable[[], Awaitable[Answer]], *, deadline: float, refused: InvalidInput
) -> Answer:
    """Attempt a call, again with backoff where that may help, until the deadline.

    Args:
        attempt: One call through the google-genai client.
        deadline: When to stop, on the event loop's clock.
        refused: What to raise when the content is refused.

    Raises:
        Unavailable: Vertex AI is down, slow or out of quota.
        InvalidInput: `refused`.
        PlatformFault: Vertex AI is set up wrongly for us, or answers what it shouldn't.
    """
    return await retry_with_backoff(partial(_once, attempt, deadline, refused), deadline=deadline)


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
    except (ValueError, RecursionError):
        failure = PlatformFault("Vertex AI answered something that cannot be read.")
    raise failure


def _meaning(error: errors.APIError, refused: InvalidInput) -> CarrelError:
    if error.code in _TRANSIENT:
        return _busy(error)
    if error.code == httpx2.codes.BAD_REQUEST and error.status == "INVALID_ARGUMENT":
        return refused
    return _misconfigured(error.code)


def _busy(error: errors.APIError | None) -> Unavailable:
    asked = error.response.headers.get("retry-after", "") if error else ""
    return Unavailable(
        "Vertex AI is busy or failing: try again later.",
        retry_after=parse_retry_after(asked, utc_now()),
    )


def _misconfigured(status: int) -> PlatformFault:
    log.error("vertex_refused", status=status, advice=_ADVICE.get(status))
    return PlatformFault(f"Vertex AI refuses this deployment ({status}).")

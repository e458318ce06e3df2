"""Calls to Vertex AI: their retries, and the errors that their failures map to.

The client's own retries ignore Retry-After, so they stay off. Error messages of Vertex AI do not
leave this module, since they can quote what was sent. For the same reason our errors are raised
after the `except` block: inside it, Python would chain the original.
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

AnswerT = TypeVar("AnswerT")

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_ADVICE = {
    401: "its service account needs credentials that Google accepts",
    403: "grant its service account roles/aiplatform.user and enable aiplatform.googleapis.com",
    404: "check the names of the model and of the location that serves it",
}


async def call_vertex(
    attempt: Callable[[], Awaitable[AnswerT]], *, deadline: float, refusal: InvalidInput
) -> AnswerT:
    """Make a call, and repeat it with backoff after transient errors until the deadline.

    Args:
        attempt: Makes one call through the google-genai client.
        deadline: When to stop, on the event loop's clock.
        refusal: The error to raise if Vertex AI rejects the content.

    Raises:
        Unavailable: Vertex AI is down, slow or out of quota.
        InvalidInput: Vertex AI rejects the content. The error is `refusal`.
        PlatformFault: Vertex AI is configured wrongly, or its answer is not valid.
    """
    return await retry_with_backoff(
        partial(_attempt_once, attempt, deadline, refusal), deadline=deadline
    )


async def _attempt_once(
    attempt: Callable[[], Awaitable[AnswerT]], deadline: float, refusal: InvalidInput
) -> AnswerT:
    failure: CarrelError
    try:
        async with asyncio.timeout_at(deadline):
            return await attempt()
    except errors.APIError as error:
        failure = _map_error(error, refusal)
    except TimeoutError:
        failure = Unavailable("Vertex AI is too slow: try again later.")
    except (httpx2.TransportError, auth.TransportError):
        failure = Unavailable("Vertex AI cannot be reached: try again later.")
    except auth.GoogleAuthError as error:
        failure = _misconfigured(401) if not error.retryable else _busy(None)
    except (ValueError, RecursionError):
        failure = PlatformFault("Vertex AI sent an answer that cannot be read.")
    raise failure


def _map_error(error: errors.APIError, refusal: InvalidInput) -> CarrelError:
    if error.code in _TRANSIENT:
        return _busy(error)
    if error.code == httpx2.codes.BAD_REQUEST and error.status == "INVALID_ARGUMENT":
        return refusal
    return _misconfigured(error.code)


def _busy(error: errors.APIError | None) -> Unavailable:
    header = error.response.headers.get("retry-after", "") if error else ""
    return Unavailable(
        "Vertex AI is busy or failing: try again later.",
        retry_after=parse_retry_after(header, utc_now()),
    )


def _misconfigured(status: int) -> PlatformFault:
    log.error("vertex_refused", status=status, advice=_ADVICE.get(status))
    return PlatformFault(f"Vertex AI rejects this deployment ({status}).")

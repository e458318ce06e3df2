"""Retries and errors of calls to Vertex AI through the google-genai client.

The client's own retries ignore Retry-After, so they stay off.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import httpx2
from google.auth import exceptions as auth
from google.genai import errors

from shared.ai.vertex_errors import (
    TRANSIENT_STATUSES,
    make_busy_error,
    make_configuration_error,
    make_timeout_error,
    make_unreachable_error,
    make_unreadable_error,
)
from shared.core.http import retry_with_backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.errors import CarrelError, InvalidInput

AnswerT = TypeVar("AnswerT")


async def call_vertex(
    attempt: Callable[[], Awaitable[AnswerT]], *, deadline: float, refusal: InvalidInput
) -> AnswerT:
    """Make a call, and retry it with backoff after transient errors until the deadline.

    Args:
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
    """Make one call within the deadline, and translate its errors. See `call_vertex`."""
    failure: CarrelError
    try:
        async with asyncio.timeout_at(deadline):
            return await attempt()
    except errors.APIError as error:
        failure = _map_error(error, refusal)
    except TimeoutError:
        failure = make_timeout_error()
    except (httpx2.TransportError, auth.TransportError):
        failure = make_unreachable_error()
    except auth.GoogleAuthError as error:
        failure = make_busy_error() if error.retryable else make_configuration_error(401)
    except (ValueError, RecursionError):
        failure = make_unreadable_error()
    raise failure


def _map_error(error: errors.APIError, refusal: InvalidInput) -> CarrelError:
    if error.code in TRANSIENT_STATUSES:
        return make_busy_error(error.response.headers.get("retry-after", ""))
    if error.code == httpx2.codes.BAD_REQUEST and error.status == "INVALID_ARGUMENT":
        return refusal
    return make_configuration_error(error.code)

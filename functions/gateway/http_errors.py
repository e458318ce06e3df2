"""Answers to requests that never reach the protocol, in a form that its clients read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mcp_types as types
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from shared.core.errors import CarrelError


def refusal(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    code: int = types.INVALID_REQUEST,
) -> JSONResponse:
    """A JSON-RPC error that answers no request in particular."""
    error = {"code": code, "message": message}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=status, headers=headers)


def refused(error: CarrelError, headers: dict[str, str] | None = None) -> JSONResponse:
    """What a client hears of an error of ours."""
    answer = refusal(error.status, error.message, headers)
    if error.retry_after is not None:
        answer.headers["retry-after"] = seconds(error.retry_after)
    return answer


def seconds(wait: float) -> str:
    """A wait as `Retry-After` has it: whole seconds, rather too many."""
    return str(math.ceil(wait))

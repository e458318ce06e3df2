"""Answers to requests that never reach the protocol, in a form that its clients read."""

from __future__ import annotations

import math
from typing import Any

import mcp_types as types
from starlette.responses import JSONResponse


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A JSON-RPC error that answers no request in particular."""
    error = {"code": types.INVALID_REQUEST, "message": message}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=status, headers=headers)


def seconds(wait: float) -> str:
    """A wait as `Retry-After` has it: whole seconds, rather too many."""
    return str(math.ceil(wait))

"""Everything that can go wrong, in two families. Errors are raised, never returned as text.

CarrelError
├── ToolFailure        the caller can act on it: the message says what is wrong and what to do next
│   ├── InvalidInput       VALIDATION_ERROR
│   ├── NotFound           NOT_FOUND
│   ├── Conflict           CONFLICT
│   ├── Unauthorized       UNAUTHORIZED
│   ├── Forbidden          FORBIDDEN
│   ├── PaymentRequired    PAYMENT_REQUIRED
│   ├── RateLimited        RATE_LIMITED, with retry_after
│   └── Unavailable        UNAVAILABLE, with retry_after
└── PlatformFault      INTERNAL_ERROR: the caller cannot, and learns only a call id to quote
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class CarrelError(Exception):
    """The root: anything that Carrel raises on purpose.

    Attributes:
        code: What programs tell errors apart by.
        status: The HTTP status a tool function answers with.
        message: A sentence for the caller.
        details: One entry per offending field, or what else helps.
        retry_after: Seconds to wait before the same call may succeed; None when waiting won't help.
    """

    code: ClassVar[str]
    status: ClassVar[int]

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Say what is wrong and what to do next."""
        super().__init__(message)
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    def to_wire(self) -> dict[str, Any]:
        """The error as every reader sees it: `{code, message, details, retry_after?}`."""
        body: dict[str, Any] = {"code": self.code, "message": self.message, "details": self.details}
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        return body


class ToolFailure(CarrelError):
    """The caller can act on it.

    Attributes:
        facts: For the log and the audit, where no content may stand.
    """

    facts: Mapping[str, Any] = MappingProxyType({})


class InvalidInput(ToolFailure):
    """An argument is missing, unknown, of the wrong type or out of range."""

    code = "VALIDATION_ERROR"
    status = 400


class NotFound(ToolFailure):
    """The thing named does not exist, or not for this caller."""

    code = "NOT_FOUND"
    status = 404


class Conflict(ToolFailure):
    """The call contradicts what is stored."""

    code = "CONFLICT"
    status = 409


class Unauthorized(ToolFailure):
    """No credential, or one that is not valid."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(ToolFailure):
    """The credential holds, but not for this."""

    code = "FORBIDDEN"
    status = 403


class PaymentRequired(ToolFailure):
    """The caller's balance or budget does not cover the call."""

    code = "PAYMENT_REQUIRED"
    status = 402


class RateLimited(ToolFailure):
    """Too many calls; `retry_after` says how long to wait."""

    code = "RATE_LIMITED"
    status = 429


class Unavailable(ToolFailure):
    """Something the call needs is down or too slow; `retry_after` says when to try again."""

    code = "UNAVAILABLE"
    status = 503


class PlatformFault(CarrelError):
    """The caller can do nothing but quote the call id."""

    code = "INTERNAL_ERROR"
    status = 500


def internal_error(tool: str, call_id: str) -> PlatformFault:
    """What a caller learns of a fault of ours."""
    message = f"{tool} failed on our side. Report it with the call id {call_id}."
    return PlatformFault(message, details={"call_id": call_id})


_STATUSES: dict[str, int] = {
    kind.code: kind.status
    for kind in (
        InvalidInput,
        NotFound,
        Conflict,
        Unauthorized,
        Forbidden,
        PaymentRequired,
        RateLimited,
        Unavailable,
        PlatformFault,
    )
}


def http_status(code: str) -> int:
    """The HTTP status that belongs to an error's code; an unknown code is a fault of ours."""
    return _STATUSES.get(code, PlatformFault.status)

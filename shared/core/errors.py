"""All errors that Carrel raises, in two families. No function returns an error as text.

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
│       └── Unusable           UNAVAILABLE, and waiting does not help
└── PlatformFault      INTERNAL_ERROR: the caller can only report it, with the call id
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERNAL_ERROR_MESSAGE: Final = "Carrel has an internal error. Try again later."
"""The message of an internal error of the gateway itself. It must not quote anything."""


class CarrelError(Exception):
    """The base class of all errors that Carrel raises.

    Attributes:
        status: The HTTP status of a tool function's answer.
        details: A message for each invalid field, or other facts.
        retry_after: Seconds until the same call may succeed, or None if waiting does not help.
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
        """Store the message, which must say what is wrong and what to do next."""
        super().__init__(message)
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    def to_wire(self) -> dict[str, Any]:
        """Return the error as clients see it: `{code, message, details, retry_after?}`."""
        body: dict[str, Any] = {"code": self.code, "message": self.message, "details": self.details}
        if self.retry_after is not None:
            body["retry_after"] = self.retry_after
        return body


class ToolFailure(CarrelError):
    """An error that the caller can act on.

    Attributes:
        facts: Facts for the log and the audit, which must not contain content.
    """

    facts: Mapping[str, Any] = MappingProxyType({})


class InvalidInput(ToolFailure):
    """An argument is missing, unknown, of the wrong type or out of range."""

    code = "VALIDATION_ERROR"
    status = 400


class NotFound(ToolFailure):
    """What the call asks for does not exist, or the caller may not see it."""

    code = "NOT_FOUND"
    status = 404


class Conflict(ToolFailure):
    """The call conflicts with what is stored."""

    code = "CONFLICT"
    status = 409


class Unauthorized(ToolFailure):
    """There is no credential, or it is not valid."""

    code = "UNAUTHORIZED"
    status = 401


class Forbidden(ToolFailure):
    """The credential is valid, but does not allow this."""

    code = "FORBIDDEN"
    status = 403


class PaymentRequired(ToolFailure):
    """The caller's balance or budget does not cover the call."""

    code = "PAYMENT_REQUIRED"
    status = 402


class RateLimited(ToolFailure):
    """There are too many calls; `retry_after` says how long to wait."""

    code = "RATE_LIMITED"
    status = 429


class Unavailable(ToolFailure):
    """A service that the call needs is down or too slow; `retry_after` says when to try again."""

    code = "UNAVAILABLE"
    status = 503


class Unusable(Unavailable):
    """What the call needs, such as a file, must be mended first. The message says how."""


class PlatformFault(CarrelError):
    """A fault of Carrel or its deployment. The caller can only report the call id."""

    code = "INTERNAL_ERROR"
    status = 500


def make_internal_error(tool: str, call_id: str) -> PlatformFault:
    """Make an error for the caller that reveals only the call id."""
    message = f"{tool} failed because of an internal error. Report it with the call id {call_id}."
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


def get_http_status(code: str) -> int:
    """Return the HTTP status of an error code. An unknown code counts as an internal error."""
    return _STATUSES.get(code, PlatformFault.status)

"""Makes Carrel's errors for failures of Vertex AI.

Error messages of Vertex AI do not leave the modules that call it, since they can quote what was
sent. For the same reason, Carrel's errors are raised after the `except` block, inside which Python
would chain the original error.
"""

from __future__ import annotations

from shared.core.dates import utc_now
from shared.core.errors import PlatformFault, Unavailable
from shared.core.http import parse_retry_after
from shared.core.log import log

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""After a response with one of these HTTP statuses, the same request may succeed later."""
_ADVICE = {
    401: "its service account needs credentials that Google accepts",
    403: "grant its service account roles/aiplatform.user and enable aiplatform.googleapis.com",
    404: "check the names of the model and of the location that serves it",
}


def make_busy_error(retry_after: str = "") -> Unavailable:
    """Make the error for a transient failure."""
    return Unavailable(
        "Vertex AI is busy or failing: try again later.",
        retry_after=parse_retry_after(retry_after, utc_now()),
    )


def make_timeout_error() -> Unavailable:
    """Make the error for an answer that does not arrive in time."""
    return Unavailable("Vertex AI is too slow: try again later.")


def make_unreachable_error() -> Unavailable:
    """Make the error for a connection that fails."""
    return Unavailable("Vertex AI cannot be reached: try again later.")


def make_unreadable_error() -> PlatformFault:
    """Make the error for an answer that cannot be parsed."""
    return PlatformFault("Vertex AI sent an answer that cannot be read.")


def make_configuration_error(status: int | None) -> PlatformFault:
    """Log advice for the operator, and make the error for a rejected deployment."""
    advice = _ADVICE.get(status or 0)
    log.error("vertex_refused", status=status, advice=advice)
    hint = f": {advice}" if advice else ""
    return PlatformFault(f"Vertex AI rejects this deployment ({status}){hint}.")

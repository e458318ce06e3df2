"""OpenTelemetry spans (https://opentelemetry.io), which show where a call spends its time.

When telemetry is off, spans are no-ops and no OpenTelemetry library is imported.

The current position in the trace is stored among the fields of log lines (`shared/core/log.py`), so
that spans, log lines and calls to other functions share the same ids. Attributes are names, sizes,
counts and codes; never content, tokens, keys or user ids.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from shared.core.installation import carrel_deploy
from shared.core.log import error_fields, get_position, log

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from shared.core.log import TraceContext
    from shared.core.settings import Settings
    from shared.core.span_export import Attributes, SpanExport


class SpanKind(Enum):
    """The kind of a span, as OpenTelemetry defines it."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    """Handling a request from another process."""
    CLIENT = "CLIENT"
    """A request to another process."""


class TraceSpan(Protocol):
    """A timed operation within a trace. It ends with its `with` block."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes, or replace those of the same names."""
        ...

    def rename(self, name: str) -> None:
        """Replace the span's name."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark the operation as failed. Only the first failure is recorded."""
        ...

    def end(self) -> None:
        """End the span before its `with` block ends, so that it can be exported."""
        ...


class _NoOpSpan:
    """A span that is not recorded."""

    def __enter__(self) -> TraceSpan:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set(self, attributes: Attributes) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def end(self) -> None:
        pass


_NO_OP_SPAN: Final = _NoOpSpan()
_export: SpanExport | None = None


def start(settings: Settings, service: str) -> None:
    """Record and export spans from now on, if the settings say so.

    Args:
        service: The service's name in the spans, which is the name of the function.
    """
    global _export  # noqa: PLW0603 - one per process
    if settings.exports_spans:
        try:
            from shared.core.span_export import SpanExport
        except ModuleNotFoundError:
            log.error("telemetry_not_in_bundle", hint=f"run `{carrel_deploy()}` with this setting")
            return
        try:
            _export = SpanExport(settings, service)
        except Exception as error:  # noqa: BLE001 - no call may fail because of telemetry
            log.error("telemetry_not_started", **error_fields(error))


def is_on() -> bool:
    """Return whether spans are recorded."""
    return _export is not None


def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: TraceContext | None = None,
) -> AbstractContextManager[TraceSpan]:
    """Record the `with` block as a span. An exception that leaves the block marks it as failed.

    A cancelled block did not fail: what cancelled it may have.

    Args:
        name: The name, from a small fixed set, without ids or content.
        kind: The kind. A CLIENT span never starts a trace: outside a trace, it is not recorded.
        parent: The parent span; by default, the current span. If another parent is given, the span
            links to the current span.
    """
    if _export is None or (kind is SpanKind.CLIENT and get_position() is None):
        return _NO_OP_SPAN
    return _export.span(name, attributes or {}, kind.value, parent)


async def flush() -> None:
    """Export the spans that have ended.

    Call this function before the answer is sent. After it, an instance may get no CPU time.
    """
    if _export:
        await _export.flush()

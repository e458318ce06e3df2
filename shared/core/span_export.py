"""Records spans with the OpenTelemetry SDK, and exports them as OTLP over HTTP.

Only `shared.core.telemetry` imports this module, and only where telemetry is on, because the SDK is
slow to import. Bundles contain the SDK only if the deployment has telemetry.

The tracer is separate from the process's global tracer, so that only Carrel's own spans are
exported. Libraries' spans may quote content, for example in error messages.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import CarrelError, Unavailable
from shared.core.log import TraceContext, bind_position, get_position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

    from shared.core.settings import Settings

    Attributes = Mapping[str, str | bool | int | float | None]
    """The attributes of a span by name. An attribute that is None is left out."""

GOOGLE_ENDPOINT: Final = "https://telemetry.googleapis.com/v1/traces"
"""Google's endpoint for OTLP, which writes to Cloud Trace.
https://docs.cloud.google.com/stackdriver/docs/reference/telemetry/v1.traces.post"""
FLUSH_SECONDS: Final = 1.0
"""How many seconds an answer waits for the export of its spans. If the export takes longer, the
spans are exported later, or lost if the instance shuts down first."""

EXPORT_SECONDS: Final = 2.0
"""How many seconds an export may take, retries included. An instance has ten to shut down."""


class SpanExport:
    """Records the spans of a process, and exports them in batches."""

    def __init__(self, settings: Settings, service: str) -> None:
        """Start recording. The SDK itself reads the `OTEL_*` variables, such as the sampler's."""
        project = settings.google_cloud_project
        resource = Resource.create(
            {
                "service.namespace": "carrel",
                "service.name": service,
                "service.version": version("carrel"),
                **({"gcp.project_id": project} if settings.telemetry == "gcp" else {}),
            }
        )
        is_google = settings.telemetry == "gcp"
        make_exporter = _make_google_exporter if is_google else OTLPSpanExporter
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(make_exporter(timeout=EXPORT_SECONDS)))
        self._tracer = self._provider.get_tracer("carrel")
        self._project = project
        self._thread = ThreadPoolExecutor(1, "carrel-telemetry")
        self._breaker = CircuitBreaker("The telemetry endpoint", failures=1)

    @contextmanager
    def span(
        self, name: str, attributes: Attributes, kind: str, parent: TraceContext | None
    ) -> Iterator[RecordedSpan]:
        """Record the `with` block as a span; see `shared.core.telemetry.span`."""
        position = get_position()
        recorded = self._tracer.start_span(
            name,
            context=_make_context(parent or position, is_remote=kind == "SERVER"),
            kind=trace.SpanKind[kind],
            attributes=_drop_missing(attributes),
            links=[trace.Link(_make_span_context(position))] if parent and position else None,
        )
        span = RecordedSpan(recorded)
        ids = recorded.get_span_context()
        own_position = TraceContext(
            trace.format_trace_id(ids.trace_id),
            trace.format_span_id(ids.span_id),
            ids.trace_flags.sampled,
        )
        try:
            with bind_position(own_position, self._project):
                yield span
        except Exception as error:  # a cancelled operation did not fail
            span.fail(error.code if isinstance(error, CarrelError) else type(error).__name__)
            raise
        finally:
            span.end()

    async def flush(self) -> None:
        """Export the spans that have ended, unless the endpoint has just failed."""
        with suppress(Unavailable), self._breaker.attempt() as attempt:
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    flush = loop.run_in_executor(self._thread, self._provider.force_flush)
                    attempt.healthy = await flush
            except TimeoutError:
                attempt.healthy = False


class RecordedSpan:
    """A span that is exported after its end; see `shared.core.telemetry.TraceSpan`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._has_failed = False

    def set(self, attributes: Attributes) -> None:
        """Add attributes, or replace those of the same names."""
        self._span.set_attributes(_drop_missing(attributes))

    def rename(self, name: str) -> None:
        """Replace the span's name."""
        self._span.update_name(name)

    def fail(self, error_type: str) -> None:
        """Mark the operation as failed. Only the first failure is recorded."""
        if not self._has_failed:
            self._has_failed = True
            self._span.set_attribute("error.type", error_type)
            # The status gets no description, because messages may quote content.
            self._span.set_status(trace.StatusCode.ERROR)

    def end(self) -> None:
        """End the span, if it has not ended yet."""
        if self._span.is_recording():
            self._span.end()


def _make_google_exporter(timeout: float) -> OTLPSpanExporter:
    import google.auth
    from google.auth.transport import requests

    authorized_session: Any = requests.AuthorizedSession  # the library has no types
    scope = "https://www.googleapis.com/auth/trace.append"
    credentials, _ = google.auth.default(scopes=[scope])
    return OTLPSpanExporter(
        endpoint=GOOGLE_ENDPOINT,
        session=authorized_session(credentials),
        timeout=timeout,
    )


def _make_context(position: TraceContext | None, *, is_remote: bool) -> Context | None:
    if position is None:
        return None
    parent = trace.NonRecordingSpan(_make_span_context(position, is_remote=is_remote))
    return trace.set_span_in_context(parent)


def _make_span_context(position: TraceContext, *, is_remote: bool = False) -> trace.SpanContext:
    return trace.SpanContext(
        int(position.trace_id, 16),
        int(position.span_id or "0", 16),
        is_remote,
        trace.TraceFlags(position.sampled),
    )


def _drop_missing(attributes: Attributes) -> dict[str, str | bool | int | float]:
    return {name: value for name, value in attributes.items() if value is not None}

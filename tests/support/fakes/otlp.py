"""A collector of OpenTelemetry spans, which receives OTLP as protobuf messages over HTTP.

Usage: python -m tests.support.fakes.otlp

As a program, it listens on the port of collectors, 4318, and prints each trace as a tree.
"""

import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

PATH: Final = "/v1/traces"
"""The path to which spans are posted."""
PORT: Final = 4318
"""The port of OTLP over HTTP."""
_SHOWN_ATTRIBUTES: Final = (
    "db.response.returned_rows",
    "db.operation.batch.size",
    "carrel.receipt.documents_read",
    "carrel.receipt.documents_written",
    "carrel.receipt.round_trips",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "error.type",
)
"""The attributes that a drawn tree shows."""


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """A span that was received.

    Attributes:
        name: Its name.
        kind: Its kind, such as `CLIENT`.
        service: The name of the function that sent it.
        trace_id: The id of its trace.
        span_id: Its own id.
        parent_id: The id of its parent, or an empty string.
        links: The ids of the traces that it links to.
        attributes: Its attributes.
        resource: The attributes of the process.
        is_error: Whether its status is an error.
        start: When it began, in nanoseconds since 1970.
        end: When it ended, in nanoseconds since 1970.
    """

    name: str
    kind: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[str, ...]
    attributes: dict[str, object]
    resource: dict[str, object]
    is_error: bool
    start: int
    end: int


class FakeCollector(LoopbackServer):
    """A collector on a port of this machine while the `with` block runs.

    Attributes:
        status: The HTTP status of its answers.
        bodies: The accepted bodies, decompressed.
        headers: The headers of all requests.
        on_spans: Called with the spans of each body.
    """

    def __init__(self, port: int = 0) -> None:
        """Open the port, by default a free one."""
        super().__init__(_Handler, port)
        self.status = 200
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.on_spans: Callable[[list[CollectedSpan]], object] = lambda _: None

    @property
    def endpoint(self) -> str:
        """The value of OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[CollectedSpan]:
        """All spans so far."""
        return [span for body in list(self.bodies) for span in parse_spans(body)]


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeCollector

    def do_POST(self) -> None:
        body = self.read_body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        is_otlp = self.headers["Content-Type"] == "application/x-protobuf" and self.path == PATH
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        status = self.server.status if is_otlp else 400
        if status == HTTPStatus.OK:
            self.server.bodies.append(body)
            self.server.on_spans(list(parse_spans(body)))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_answer(status, answer, {"Content-Type": "application/x-protobuf"})


def parse_spans(body: bytes) -> Iterator[CollectedSpan]:
    """Yield the spans in the body of a request."""
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _to_dict(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield CollectedSpan(
                    name=span.name,
                    kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    service=str(resource["service.name"]),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    links=tuple(link.trace_id.hex() for link in span.links),
                    attributes=_to_dict(span.attributes),
                    resource=resource,
                    is_error=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                )


def _to_dict(attributes: Iterable[KeyValue]) -> dict[str, object]:
    return {
        item.key: getattr(item.value, str(item.value.WhichOneof("value"))) for item in attributes
    }


def draw(spans: Iterable[CollectedSpan]) -> str:
    """Draw the spans of a trace as a tree: service, start and duration in ms, some attributes."""
    sorted_spans = sorted(spans, key=lambda span: span.start)
    ids = {span.span_id for span in sorted_spans}
    children: defaultdict[str, list[CollectedSpan]] = defaultdict(list)
    for span in sorted_spans:
        children[span.parent_id if span.parent_id in ids else ""].append(span)

    def list_descendants(parent_id: str, indent: str) -> Iterator[tuple[str, CollectedSpan]]:
        for span in children[parent_id]:
            yield f"{indent}{span.name}", span
            yield from list_descendants(span.span_id, indent + "  ")

    rows = list(list_descendants("", ""))
    name_width = max(len(indented_name) for indented_name, _ in rows)
    service_width = max(len(span.service) for _, span in rows)
    first_start = sorted_spans[0].start
    return "\n".join(
        f"{indented_name:<{name_width}}  {span.service:<{service_width}}"
        f"  {_to_ms(span.start - first_start):7.1f} {_to_ms(span.end - span.start):7.1f}"
        f"  {_format_attributes(span)}".rstrip()
        for indented_name, span in rows
    )


def _to_ms(nanoseconds: int) -> float:
    return nanoseconds / 1e6


def _format_attributes(span: CollectedSpan) -> str:
    return ", ".join(
        f"{name.rpartition('.')[2] if name != 'error.type' else 'error'}: {span.attributes[name]}"
        for name in _SHOWN_ATTRIBUTES
        if name in span.attributes
    )


def print_traces() -> None:
    """Print each trace when its root arrives, which is the last span of a trace."""
    traces: defaultdict[str, list[CollectedSpan]] = defaultdict(list)

    def add(spans: list[CollectedSpan]) -> None:
        for span in spans:
            traces[span.trace_id].append(span)
        for span in spans:
            if not span.parent_id:
                print(f"\n{draw(traces.pop(span.trace_id))}", flush=True)  # noqa: T201 - a command

    with FakeCollector(PORT) as collector, suppress(KeyboardInterrupt):
        collector.on_spans = add
        collector.closing.wait()


if __name__ == "__main__":
    print_traces()

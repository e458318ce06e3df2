"""The measurements of `measure.py`, extended to a knowledge base of any size.

- By design, the number of documents that a call reads and writes does not depend on the size of
  the knowledge base (`docs/scale.md`). The figures of the largest measured size are used for all
  larger ones.
- Most other figures are linear, including the vector index entries that a query reads. They follow
  the line through the smallest and the largest measured size.
- The vector index entries that the first ingestion reads grow with the square of the size, because
  each new extraction is compared with all others.
- The emulator compares all vectors in one thread; Firestore does not. The duration of a search is
  therefore that of the smallest knowledge base, where the comparison matters least.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FILE: Final = Path(__file__).with_name("measured.json")


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a call, of a job run, or of the first ingestion.

    Attributes:
        read: Documents read.
        index_reads: Reads that Firestore bills for scanned entries of vector indexes.
        written: Documents written.
        seconds: Elapsed time.
        cpu_seconds: CPU time.
        embedded: Tokens that were embedded.
        input_tokens: Tokens sent to the language model.
        output_tokens: Tokens that the language model returned.
    """

    read: float = 0.0
    index_reads: float = 0.0
    written: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    embedded: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0

    @property
    def reads(self) -> float:
        """All billed reads: documents and index entries."""
        return self.read + self.index_reads

    def __add__(self, other: Usage) -> Usage:
        """Add each figure."""
        return Usage(*(getattr(self, name) + getattr(other, name) for name in Usage.__slots__))

    def multiply(self, factor: float) -> Usage:
        """Multiply each figure by a factor."""
        return Usage(*(factor * getattr(self, name) for name in Usage.__slots__))


@dataclass(frozen=True, slots=True)
class CallFigures:
    """A kind of call in the usual mix.

    Attributes:
        name: The tool, and how it is called.
        tool: The tool's name.
        per_day: How many calls of the mix are of this kind.
        effect: What the tool does to data: "read", "write" or "destroy".
        usage: The usage of the tool's function for one call.
    """

    name: str
    tool: str
    per_day: int
    effect: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class GatewayUsage:
    """The usage of the gateway for a call.

    Attributes:
        reads: Reads in the database `access`.
        writes: Writes in the database `access`.
        writes_of_a_write: Additional writes in `access` when the tool writes.
        seconds: Elapsed time, without that of the tool.
        cpu_seconds: CPU time.
        answer_bytes: The mean size of an answer.
    """

    reads: float
    writes: float
    writes_of_a_write: float
    seconds: float
    cpu_seconds: float
    answer_bytes: float


@dataclass(frozen=True, slots=True)
class Measurements:
    """All measurements, for one size of the knowledge base.

    Attributes:
        measured_on: The date of the measurement.
        calls: The usual mix of calls.
        gateway: The gateway's usage for each call.
        idle: By job, the usage of a run with nothing to do.
        ingestion: By job, the usage of the first ingestion.
        stored: Bytes of documents and index entries.
        start: CPU seconds of a cold start by kind of function: "gateway", "tool", "job".
        image: Megabytes of an image by kind of function, without the layers that all share.
    """

    measured_on: str
    calls: Sequence[CallFigures]
    gateway: GatewayUsage
    idle: Mapping[str, Usage]
    ingestion: Mapping[str, Usage]
    stored: float
    start: Mapping[str, float]
    image: Mapping[str, float]

    @property
    def calls_in_mix(self) -> int:
        """The number of calls in the usual mix."""
        return sum(call.per_day for call in self.calls)


def load_measurements(chunks: int) -> Measurements:
    """Return the measurements for a knowledge base of this many chunks."""
    content = load_figures()
    sizes = content["sizes"]
    return Measurements(
        measured_on=content["measured"],
        calls=[_call(call, sizes, chunks) for call in content["calls"]],
        gateway=GatewayUsage(**content["gateway"]),
        idle={
            name: _interpolate_idle(figures, sizes, chunks)
            for name, figures in content["idle"].items()
        },
        ingestion={
            name: _extrapolate_ingestion(figures, sizes, chunks)
            for name, figures in content["ingestion"].items()
        },
        stored=interpolate(sizes, content["stored"], chunks),
        start=content["start"],
        image=content["image"],
    )


@cache
def load_figures() -> dict[str, Any]:
    """Load `measured.json`."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return content


def interpolate(sizes: Sequence[int], values: Sequence[float], size: float) -> float:
    """Return the value on the line through the first and the last value, but at least 0."""
    slope = (values[-1] - values[0]) / (sizes[-1] - sizes[0])
    return max(0.0, values[0] + slope * (size - sizes[0]))


def pick_measured_value(sizes: Sequence[int], values: Sequence[float], size: float) -> float:
    """Return the value at the largest measured size up to `size`, or at the smallest size."""
    at_or_below = [
        value for measured_size, value in zip(sizes, values, strict=True) if measured_size <= size
    ]
    return at_or_below[-1] if at_or_below else values[0]


def _call(fields: Mapping[str, Any], sizes: Sequence[int], size: int) -> CallFigures:
    unchanged = {name: fields[name] for name in ("name", "tool", "per_day", "effect")}
    by_size: Mapping[str, Sequence[float]] = fields["usage"]
    usage = {name: pick_measured_value(sizes, values, size) for name, values in by_size.items()}
    usage["index_reads"] = interpolate(sizes, by_size["index_reads"], size)
    usage["seconds"] = by_size["seconds"][0]
    return CallFigures(usage=Usage(**usage), **unchanged)


def _interpolate_idle(
    fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int
) -> Usage:
    interpolated = _interpolate_all(fields, sizes, size)
    if interpolated["index_reads"]:
        interpolated["seconds"] = fields["seconds"][0]
    return Usage(**interpolated)


def _extrapolate_ingestion(
    fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int
) -> Usage:
    quadratic = fields["index_reads"][-1] * (size / sizes[-1]) ** 2
    return Usage(**_interpolate_all(fields, sizes, size) | {"index_reads": quadratic})


def _interpolate_all(
    fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int
) -> dict[str, float]:
    return {name: interpolate(sizes, values, size) for name, values in fields.items()}

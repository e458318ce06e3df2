"""The measurements of `measure.py`, interpolated to a knowledge base of any size.

Documents that a call reads and writes do not depend on the base's size by design (`docs/scale.md`):
those of the largest base that was measured count for all larger ones. Everything else, among it the
entries of a vector index that a query reads, is linear: it lies on the line through what was
measured at the first and the last size. What a filling reads of them grows with the square: each
new finding is compared with all that there are.

The emulator compares all vectors in one thread, which the service does not. So the time of what
searches is taken from the smallest base, where that counts least.
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
class CallWork:
    """The usage of one call, one job run, or the whole first filling.

    Attributes:
        read: Documents.
        index_reads: What Firestore bills for entries of vector indexes that its queries read.
        written: Documents.
        seconds: From its begin to its end.
        processor: Seconds of a processor.
        embedded: Tokens of texts that were turned into vectors.
        input_tokens: Tokens that a language model was given.
        output_tokens: Tokens that it wrote.
    """

    read: float = 0.0
    index_reads: float = 0.0
    written: float = 0.0
    seconds: float = 0.0
    processor: float = 0.0
    embedded: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0

    @property
    def reads(self) -> float:
        """The billed reads, of documents and of index entries."""
        return self.read + self.index_reads

    def __add__(self, other: CallWork) -> CallWork:
        """The sum of both."""
        return CallWork(
            *(getattr(self, name) + getattr(other, name) for name in CallWork.__slots__)
        )

    def times(self, factor: float) -> CallWork:
        """Return the usage times a factor."""
        return CallWork(*(factor * getattr(self, name) for name in CallWork.__slots__))


@dataclass(frozen=True, slots=True)
class Call:
    """A kind of call in the usual mix.

    Attributes:
        name: The tool, and how it is called.
        tool: The tool's name.
        a_day: How many of a day's calls are of this kind.
        effect: What it does to data: "read", "write" or "destroy".
        work: What one takes, in the tool's function.
    """

    name: str
    tool: str
    a_day: int
    effect: str
    work: CallWork


@dataclass(frozen=True, slots=True)
class Gateway:
    """The usage of the gateway for a call.

    Attributes:
        reads: In the database `access`, of each call.
        writes: The same.
        writes_of_a_write: What a call that writes adds to these.
        seconds: From the request to the answer, without the tool's own.
        processor: Seconds of a processor.
        answer_bytes: What an answer has on average.
    """

    reads: float
    writes: float
    writes_of_a_write: float
    seconds: float
    processor: float
    answer_bytes: float


@dataclass(frozen=True, slots=True)
class Measurements:
    """All measurements, for one size of the knowledge base.

    Attributes:
        on: The date.
        calls: The usual mix.
        gateway: What the gateway adds to each.
        idle: By job, a run that finds nothing new.
        filling: By job, the run that does all of a new base.
        stored: Bytes of documents and index entries.
        start: Seconds until a function serves: "gateway", "tool", "job".
        image: Megabytes of its image beside the common base: the same names, and "base".
    """

    on: str
    calls: Sequence[Call]
    gateway: Gateway
    idle: Mapping[str, CallWork]
    filling: Mapping[str, CallWork]
    stored: float
    start: Mapping[str, float]
    image: Mapping[str, float]

    @property
    def mix(self) -> int:
        """The number of calls in the usual mix."""
        return sum(call.a_day for call in self.calls)


def measurements_at(chunks: int) -> Measurements:
    """Return the measurements for a base of this many chunks."""
    content = measured_figures()
    sizes = content["sizes"]
    return Measurements(
        on=content["measured"],
        calls=[_call(call, sizes, chunks) for call in content["calls"]],
        gateway=Gateway(**content["gateway"]),
        idle={name: _idle(figures, sizes, chunks) for name, figures in content["idle"].items()},
        filling={
            name: _filling(figures, sizes, chunks) for name, figures in content["filling"].items()
        },
        stored=interpolate(sizes, content["stored"], chunks),
        start=content["start"],
        image=content["image"],
    )


@cache
def measured_figures() -> dict[str, Any]:
    """Return the content of `measured.json`."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return content


def interpolate(sizes: Sequence[int], values: Sequence[float], size: float) -> float:
    """Return the value at `size` on the line through the first and the last value; at least 0."""
    slope = (values[-1] - values[0]) / (sizes[-1] - sizes[0])
    return max(0.0, values[0] + slope * (size - sizes[0]))


def at_measured_size(sizes: Sequence[int], values: Sequence[float], size: float) -> float:
    """Return the value at the largest measured size up to `size`, or at the smallest size."""
    at_or_below = [
        value for measured_size, value in zip(sizes, values, strict=True) if measured_size <= size
    ]
    return at_or_below[-1] if at_or_below else values[0]


def _call(fields: Mapping[str, Any], sizes: Sequence[int], size: int) -> Call:
    plain = {name: fields[name] for name in ("name", "tool", "a_day", "effect")}
    by_size: Mapping[str, Sequence[float]] = fields["work"]
    work = {name: at_measured_size(sizes, values, size) for name, values in by_size.items()}
    work["index_reads"] = interpolate(sizes, by_size["index_reads"], size)
    work["seconds"] = by_size["seconds"][0]
    return Call(work=CallWork(**work), **plain)


def _idle(fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int) -> CallWork:
    lines = _lines(fields, sizes, size)
    if lines["index_reads"]:
        lines["seconds"] = fields["seconds"][0]
    return CallWork(**lines)


def _filling(fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int) -> CallWork:
    square = fields["index_reads"][-1] * (size / sizes[-1]) ** 2
    return CallWork(**_lines(fields, sizes, size) | {"index_reads": square})


def _lines(
    fields: Mapping[str, Sequence[float]], sizes: Sequence[int], size: int
) -> dict[str, float]:
    return {name: interpolate(sizes, values, size) for name, values in fields.items()}

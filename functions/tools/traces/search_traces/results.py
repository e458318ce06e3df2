"""What search_traces says of the traces that it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.text.snippets import truncate
from shared.traces.views import Standing, trace_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.traces.model import Trace

SHORT: Final = 200
"""Characters of the problem and of the solution that are shown."""


class Hit(Standing):
    """A trace that was found."""

    rank: int = Field(description="1 for the best; it goes on from page to page.")
    score: float | None = Field(
        description="Cosine similarity of query and trace: 1 the same, 0 unrelated; missing where"
        " meaning was not compared. Words, votes and age count for the order too."
    )
    context: str = Field(description="How the problem begins.")
    solution: str = Field(description="How the solution begins; get_trace has the whole.")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of hits.

    Attributes:
        hits: In order.
        position: Where the next page begins; None if this is the last.
        matches: Whether any hit fits, as far as the scores can tell.
        notes: What went otherwise than the caller may think.
    """

    hits: list[Hit]
    position: Sequence[int | str] | None
    matches: bool
    notes: Sequence[str] = ()


def hit(trace: Trace, rank: int, similarity: float | None = None) -> Hit:
    """What is said of a trace at this place."""
    return trace_view(
        Hit,
        trace,
        rank=rank,
        score=None if similarity is None else round(similarity, 3),
        context=_short(trace.writing.context_text),
        solution=_short(trace.writing.solution_text),
    )


def _short(text: str) -> str:
    return truncate(" ".join(text.split()), SHORT)

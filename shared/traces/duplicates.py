"""What stands already that is like a new trace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import Conflict
from shared.text.terms import resemblance
from shared.traces.near_duplicates import CANDIDATES, TraceTerms, is_near_duplicate
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import IndexEntry

ALIKE: Final = 0.1
"""Resemblance of two problems from which on they may be the same: that of all near-duplicates."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What stands already.

    Attributes:
        duplicates: Those that say the same, the nearest first.
        similar: Those whose problem may be the same, the nearest first.
    """

    duplicates: list[Trace]
    similar: list[Trace]


async def likeness(trace: Trace, entry: IndexEntry, ctx: Context) -> Likeness:
    """Compare a trace with the nearest others, but for the one it replaces. One round trip."""
    neighbours = await Traces(ctx.database).nearest(entry.vector, CANDIDATES + 1)
    itself = {trace.trace_id, trace.supersedes}
    others = [each.document for each in neighbours if each.document.trace_id not in itself]
    # Counting the terms of six long traces takes some tenths of a second.
    return await asyncio.to_thread(_compare, trace, others)


def _compare(trace: Trace, others: Sequence[Trace]) -> Likeness:
    words, words_of = _words(trace), {other.trace_id: _words(other) for other in others}
    return Likeness(
        duplicates=[
            other for other in others if is_near_duplicate(words, words_of[other.trace_id])
        ],
        similar=[
            other
            for other in others
            if resemblance(words.problem, words_of[other.trace_id].problem) >= ALIKE
        ],
    )


async def require_no_duplicate(trace: Trace, entry: IndexEntry, ctx: Context) -> None:
    """Let no trace become what another one is. One round trip.

    Raises:
        Conflict: A trace says the same already.
    """
    found = await likeness(trace, entry, ctx)
    if found.duplicates:
        other = found.duplicates[0].trace_id
        raise Conflict(
            f"A trace says the same already: {other}. Read it with get_trace, and vote for it with"
            " vote_trace if it is somebody else's. Nothing was changed.",
            details={"duplicate": other},
        )


def _words(trace: Trace) -> TraceTerms:
    said = trace.writing
    return TraceTerms.of(said.title, said.context_text, said.solution_text)

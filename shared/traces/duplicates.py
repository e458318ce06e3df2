"""Finds stored traces that duplicate a new trace, or solve a similar problem."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import Conflict
from shared.text.terms import compute_resemblance
from shared.traces.near_duplicates import MAX_CANDIDATES, TraceTerms, is_near_duplicate
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import TraceIndexEntry

MIN_PROBLEM_RESEMBLANCE: Final = 0.1
"""Problems with at least this resemblance may be the same. It is the lowest resemblance that the
problems of two near-duplicates have (`shared.traces.near_duplicates`)."""


@dataclass(frozen=True, slots=True)
class SimilarTraces:
    """Stored traces that are similar to another trace, the nearest first.

    Attributes:
        duplicates: The near-duplicates of the trace.
        related: The traces whose problem may be the same, including the duplicates.
    """

    duplicates: list[Trace]
    related: list[Trace]


async def find_similar_traces(trace: Trace, entry: TraceIndexEntry, ctx: Context) -> SimilarTraces:
    """Compare a trace with its nearest neighbours, except the trace that it supersedes.

    Costs one Firestore round trip.

    Args:
        trace: The new or changed trace.
        entry: What the index will store of the trace, which contains the vector to search with.
        ctx: The context of the call.
    """
    # One more than are compared, because the trace itself may be among them.
    hits = await Traces(ctx.database).find_nearest(entry.vector, MAX_CANDIDATES + 1)
    excluded_ids = {trace.trace_id, trace.supersedes}
    other_traces = [hit.document for hit in hits if hit.document.trace_id not in excluded_ids]
    # In a thread, because counting the terms of six long traces takes some tenths of a second.
    return await asyncio.to_thread(_compare, trace, other_traces)


async def require_no_duplicate(trace: Trace, entry: TraceIndexEntry, ctx: Context) -> None:
    """Reject a change that would make a trace a duplicate. Costs one Firestore round trip.

    Raises:
        Conflict: Another trace is a near-duplicate of the changed trace.
    """
    duplicates = (await find_similar_traces(trace, entry, ctx)).duplicates
    if duplicates:
        duplicate_id = duplicates[0].trace_id
        raise Conflict(
            f"Another trace already says the same: {duplicate_id}. Read it with get_trace; if it is"
            " not yours, vote for it with vote_trace. Nothing was changed.",
            details={"duplicate": duplicate_id},
        )


def _compare(trace: Trace, other_traces: Sequence[Trace]) -> SimilarTraces:
    """Compare a trace with others, and keep their order."""
    terms = _extract_terms(trace)
    pairs = [(other_trace, _extract_terms(other_trace)) for other_trace in other_traces]
    return SimilarTraces(
        duplicates=[
            other_trace
            for other_trace, other_terms in pairs
            if is_near_duplicate(terms, other_terms)
        ],
        related=[
            other_trace
            for other_trace, other_terms in pairs
            if compute_resemblance(terms.problem, other_terms.problem) >= MIN_PROBLEM_RESEMBLANCE
        ],
    )


def _extract_terms(trace: Trace) -> TraceTerms:
    content = trace.content
    return TraceTerms.of(content.title, content.context_text, content.solution_text)

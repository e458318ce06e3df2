"""Finds stored traces that duplicate a new trace, or solve a similar problem."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.ai.vector_halves import ENGLISH, weigh
from shared.core.errors import Conflict
from shared.firestore.claims import load_claim
from shared.text.terms import compute_resemblance
from shared.traces.near_duplicates import MAX_CANDIDATES, TraceTerms, is_near_duplicate
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.firestore.claims import Claim
    from shared.index.vector_index import Neighbour
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
        near: The near-duplicates of the trace. One may correct the other.
        related: The traces whose problem may be the same, each with the cosine of its vector.
    """

    same: list[Trace]
    near: list[Trace]
    related: list[tuple[Trace, float]]


async def find_similar_traces(trace: Trace, entry: TraceIndexEntry, ctx: Context) -> SimilarTraces:
    """Compare a trace with its nearest neighbours, except the trace that it supersedes.

    Costs one Firestore round trip.

    Args:
        entry: What the index will store of the trace, which contains the vector to search with.
    """
    # One more than are compared, because the trace itself may be among them.
    vector = weigh(entry.vector, entry.model, ENGLISH)
    hits = await Traces(ctx.database).find_nearest(vector, MAX_CANDIDATES + 1)
    excluded_ids = {trace.trace_id, trace.supersedes}
    others = [hit for hit in hits if hit.document.trace_id not in excluded_ids]
    # In a thread, because counting the terms of six long traces takes some tenths of a second.
    return await asyncio.to_thread(_compare, trace, others)


async def find_holder(claim: Claim, candidates: Iterable[Trace], ctx: Context) -> Trace | None:
    """Return the trace whose text a claim stands for, or None.

    A holder counts only if it has that text now. Costs one round trip if the holder is not among
    the candidates, which were read already.
    """
    if claim.holder is None:
        return None
    holder = next((trace for trace in candidates if trace.trace_id == claim.holder), None)
    if holder is None:
        stored = await Traces(ctx.database).get(claim.holder)
        holder = stored.trace if stored else None
    return holder if holder and holder.content.claim_id == claim.claim_id else None


async def load_free_claim(trace: Trace, ctx: Context) -> Claim | None:
    """Load the claim to the text of a trace, or None if another trace has it.

    Costs one Firestore round trip, or two if another trace holds the claim.
    """
    claim = await load_claim(ctx.database, trace.content.claim_id)
    if claim.holder == trace.trace_id or await find_holder(claim, [], ctx) is None:
        return claim
    return None


async def require_free_claim(trace: Trace, ctx: Context) -> Claim:
    """Load the claim to the text of a changed trace. Costs as much as `load_free_claim`.

    Raises:
        Conflict: Another trace has the text.
    """
    claim = await load_claim(ctx.database, trace.content.claim_id)
    if claim.holder == trace.trace_id or await find_holder(claim, [], ctx) is None:
        return claim
    raise Conflict(
        f"Another trace already says the same: {claim.holder}. Read it with get_trace; if it is"
        " not yours, vote for it with vote_trace. Nothing was changed.",
        details={"duplicate": claim.holder},
    )


def _compare(trace: Trace, others: Sequence[Neighbour[Trace]]) -> SimilarTraces:
    """Compare a trace with others, and keep their order."""
    terms = _extract_terms(trace)
    claim_id = trace.content.claim_id
    pairs = [(other, _extract_terms(other.document)) for other in others]
    return SimilarTraces(
        same=[other.document for other in others if other.document.content.claim_id == claim_id],
        near=[other.document for other, words in pairs if is_near_duplicate(terms, words)],
        related=[
            (other.document, round(other.similarity, 2))
            for other, other_terms in pairs
            if compute_resemblance(terms.problem, other_terms.problem) >= MIN_PROBLEM_RESEMBLANCE
        ],
    )


def _extract_terms(trace: Trace) -> TraceTerms:
    content = trace.content
    return TraceTerms.of(content.title, content.context_text, content.solution_text)

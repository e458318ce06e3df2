"""Loads a page of traces, ordered by relevance to a query or by date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, TypeAdapter

from shared.runtime.pagination import CursorCount, CursorMoment
from shared.runtime.schemas import FOR_APPS, DocumentId, Result
from shared.search.hybrid import rank
from shared.search.listing import find_start, list_newest, make_rank_position
from shared.search.query import Degradation
from shared.search.relevance import MAX_NEAR
from shared.text.snippets import NEAR_LENGTH, truncate
from shared.traces.corpus import describe_unknown_tags, make_trace_corpus
from shared.traces.moderation import moderate_scores
from shared.traces.repository import Traces
from shared.traces.views import TraceSummary, build_trace_view, format_votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.runtime.context import Context
    from shared.search.listing import RankPosition
    from shared.search.query import Candidate, Ranking, SearchQuery
    from shared.traces.corpus import TraceSelection
    from shared.traces.model import Trace

    DatePosition = tuple[int, int, str]
    """See `DATE_POSITION`."""
    Fit = Callable[[list["TraceHit | NearTrace"]], list["TraceHit | NearTrace"]]
    """Returns as many of the first hits as fit into an answer."""

DATE_POSITION: Final = TypeAdapter(tuple[CursorCount, CursorMoment, DocumentId])
"""A cursor by date contains the number of traces on previous pages, and the date and the id of the
last of them."""
MAX_LEXICAL_READS: Final = 60
"""The maximum number of traces that are read because only the search by words found them."""
MAX_EXCERPT: Final = 200
"""The maximum length of a hit's excerpts of the problem and of the solution, in characters."""
_WORDS_ONLY: Final = (
    f"Only words were searched, and at most {MAX_LEXICAL_READS} traces can be shown."
)
DEGRADATION_NOTES: Final = {
    Degradation.EMBEDDING_UNAVAILABLE: "The embedding provider cannot be reached right now."
    f" {_WORDS_ONLY}",
    Degradation.REEMBEDDING: "All texts are being embedded with another model right now."
    f" {_WORDS_ONLY}",
    Degradation.SEMANTIC_TIMED_OUT: f"The search by meaning did not finish in time. {_WORDS_ONLY}",
}


class TraceHit(TraceSummary):
    """A trace in search results."""

    rank: int = Field(
        description="1 for the best; counted on from page to page.", json_schema_extra=FOR_APPS
    )
    score: float | None = Field(
        description="Cosine similarity of query and trace: 1 the same, 0 unrelated; missing where"
        " meaning was not compared. The order also depends on words, votes and age."
    )
    yours: bool | None = Field(description="true: you contributed it.")
    context: str = Field(description="How the problem begins.")
    solution: str = Field(description="The beginning of the solution; get_trace returns all of it.")


class NearTrace(Result):
    """A trace that is merely near, not likely to answer."""

    near: Literal[True] = Field(description="Merely near, not likely to answer.")
    trace_id: str = Field(description="Its id, for get_trace.")
    title: str = Field(description="The problem in one line.")
    yours: bool | None = Field(description="true: you contributed it.")
    context: str = Field(description="How the problem begins.")


@dataclass(frozen=True, slots=True)
class TracePage:
    """A page of hits.

    Attributes:
        position: The cursor of the next page, or None on the last page.
        matches: Whether any hit fits, as far as the scores can tell.
        notes: Sentences that say what limited the search.
    """

    hits: list[TraceHit | NearTrace]
    position: Sequence[int | str] | None
    matches: bool
    notes: Sequence[str] = ()


async def load_page_by_date(
    selection: TraceSelection,
    position: DatePosition | None,
    limit: int,
    fit: Fit,
    ctx: Context,
) -> TracePage:
    """List traces, latest first. Costs two round trips, or three if a tag does not exist."""
    count_before, after = (position[0], position[1:]) if position else (0, None)
    listing = await list_newest(selection, limit, after, make_trace_corpus(ctx.database))
    ranks = count(count_before + 1)
    hits = fit([_build_hit(trace, next(ranks), ctx) for trace in listing.documents])
    is_cut = len(hits) < len(listing.documents)
    following = listing.cursors[len(hits) - 1] if is_cut else listing.next
    # Postings do not show which traces are flagged, so a total would include those.
    has_total = listing.total and selection.include_flagged and not count_before
    counts = [f"{len(hits)} of {listing.total}."] if has_total else []
    return TracePage(
        hits=hits,
        position=(count_before + len(hits), *following) if following else None,
        matches=bool(hits or count_before or following),
        notes=counts + await describe_unknown_tags([value for _, value in listing.unknown], ctx),
    )


async def load_page_by_relevance(
    query: SearchQuery,
    previous: RankPosition | None,
    limit: int,
    fit: Fit,
    ctx: Context,
) -> TracePage:
    """Return the traces that answer, and after the last of them the nearest others.

    They are in the order of relevance, votes and age. Costs at most three round trips: those of
    `rank`, and one more if only words found a trace, or a tag does not exist.
    """
    ranking = await rank(query, make_trace_corpus(ctx.database), ctx)
    candidates = _moderate(await _read_documents(ranking.hits, query, ctx), ctx)
    answers = [(match, trace) for match, trace in candidates if match.answers]
    ids = [match.id for match, _ in answers]
    start = find_start(ids, previous)
    page = answers[start : start + limit]
    near = [(match, trace) for match, trace in candidates if not match.answers]
    near.sort(key=lambda item: -item[0].evidence)
    ranks = count(start + 1)
    near_hits = [
        _build_near_hit(trace, ctx)
        for _, trace in near[: max(0, min(MAX_NEAR, limit - len(ids) + start))]
    ]
    hits = fit(
        [
            *(_build_hit(trace, next(ranks), ctx, match.similarity) for match, trace in page),
            *near_hits,
        ]
    )
    end = start + sum(isinstance(hit, TraceHit) for hit in hits)
    return TracePage(
        hits=hits,
        position=make_rank_position(ids, end) if start < end < len(ids) else None,
        matches=ranking.matches and bool(hits or previous),
        notes=await _collect_notes(ranking, ctx),
    )


def format_hit(hit: TraceHit | NearTrace) -> str:
    """Format a hit as text."""
    if isinstance(hit, NearTrace):
        yours = ", yours" if hit.yours else ""
        return f"Near: {hit.title} (ID: {hit.trace_id}{yours}): {hit.context}"
    scores = [f"score: {hit.score:.2f}"] if hit.score is not None else []
    scores += [f"trust: {hit.trust:.2f}", format_votes(hit), hit.status, hit.date]
    scores += ["yours"] if hit.yours else []
    return (
        f"{hit.rank}. {hit.title} ({', '.join(scores)})\n"
        f"   Tags: {', '.join(hit.tags) or 'none'}\n"
        f"   Context: {hit.context}\n"
        f"   Solution: {hit.solution}\n"
        f"   ID: {hit.trace_id}"
    )


def _moderate(
    candidates: Sequence[Candidate[Trace]], ctx: Context
) -> list[tuple[Candidate[Trace], Trace]]:
    """Sort candidates by their moderated scores. Candidates that were not read are left out."""
    traces = {match.id: match.document for match in candidates if match.document}
    scores = moderate_scores(candidates, traces, ctx.clock())
    scored = [match for match in candidates if match.id in scores]
    scored.sort(key=lambda match: (-scores[match.id], match.id))
    return [(match, traces[match.id]) for match in scored]


async def _read_documents(
    candidates: Sequence[Candidate[Trace]], query: SearchQuery, ctx: Context
) -> Sequence[Candidate[Trace]]:
    """Read the traces of candidates that only the search by words found."""
    missing = [match.id for match in candidates if match.document is None][:MAX_LEXICAL_READS]
    traces = {
        trace.trace_id: trace
        for trace in await Traces(ctx.database).get_all(missing)
        if query.selection.admits(trace)
    }
    return [replace(match, document=match.document or traces.get(match.id)) for match in candidates]


async def _collect_notes(ranking: Ranking[Trace], ctx: Context) -> list[str]:
    notes = await describe_unknown_tags([value for _, value in ranking.unknown], ctx)
    if ranking.degradation in DEGRADATION_NOTES and ranking.documents:
        notes.append(DEGRADATION_NOTES[ranking.degradation])
    elif ranking.timeout_message:
        notes.append(ranking.timeout_message)
    if ranking.truncated:
        notes.append("More traces may have these tags than could be checked: add a tag.")
    return notes


def _build_hit(trace: Trace, rank: int, ctx: Context, similarity: float | None = None) -> TraceHit:
    return build_trace_view(
        TraceHit,
        trace,
        ctx.zone,
        yours=_is_own(trace, ctx),
        rank=rank,
        score=None if similarity is None else round(similarity, 2),
        context=_cut_excerpt(trace.content.context_text, MAX_EXCERPT),
        solution=_cut_excerpt(trace.content.solution_text, MAX_EXCERPT),
    )


def _build_near_hit(trace: Trace, ctx: Context) -> NearTrace:
    context = _cut_excerpt(trace.content.context_text, NEAR_LENGTH)
    title, yours = trace.content.title, _is_own(trace, ctx)
    return NearTrace.of(trace, near=True, title=title, yours=yours, context=context)


def _is_own(trace: Trace, ctx: Context) -> bool | None:
    return trace.contributor == ctx.caller.user_id or None


def _cut_excerpt(text: str, length: int) -> str:
    return truncate(" ".join(text.split()), length)

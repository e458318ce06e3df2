"""Loads a page of traces, ordered by relevance to a query or by date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from pydantic import Field, TypeAdapter

from shared.runtime.pagination import CursorCount, CursorMoment
from shared.runtime.schemas import FOR_APPS, DocumentId
from shared.search.hybrid import rank
from shared.search.listing import fingerprint_hit, list_newest
from shared.search.query import Degradation
from shared.text.snippets import truncate
from shared.traces.corpus import describe_unknown_tags, make_trace_corpus
from shared.traces.moderation import moderate_scores
from shared.traces.repository import Traces
from shared.traces.views import TraceSummary, build_trace_view, format_votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from shared.runtime.context import Context
    from shared.search.filter_plan import Selection
    from shared.search.query import Candidate, Ranking, SearchQuery
    from shared.traces.model import Trace

    DatePosition = tuple[int, int, str]
    """See `DATE_POSITION`."""
    Fit = Callable[[list["TraceHit"]], list["TraceHit"]]
    """Returns as many of the first hits as fit into an answer."""

DATE_POSITION: Final = TypeAdapter(tuple[CursorCount, CursorMoment, DocumentId])
"""A cursor by date contains the number of traces on previous pages, and the date and the id of the
last of them."""
MAX_NEAREST: Final = 3
"""If no trace matches, at most this many of the nearest are returned for the caller to judge."""
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
    context: str = Field(description="How the problem begins.")
    solution: str = Field(description="How the solution begins; get_trace returns all of it.")


@dataclass(frozen=True, slots=True)
class TracePage:
    """A page of hits.

    Attributes:
        position: The cursor of the next page, or None on the last page.
        matches: Whether any hit fits, as far as the scores can tell.
        notes: Sentences that say what limited the search.
    """

    hits: list[TraceHit]
    position: Sequence[int | str] | None
    matches: bool
    notes: Sequence[str] = ()


async def load_page_by_date(
    selection: Selection,
    position: DatePosition | None,
    limit: int,
    fit: Fit,
    ctx: Context,
) -> TracePage:
    """List traces, latest first. Costs two round trips, or three if a tag does not exist."""
    count_before, after = (position[0], position[1:]) if position else (0, None)
    listing = await list_newest(selection, limit, after, make_trace_corpus(ctx.database))
    ranks = count(count_before + 1)
    hits = fit([_build_hit(trace, next(ranks), ctx.zone) for trace in listing.documents])
    is_cut = len(hits) < len(listing.documents)
    following = listing.cursors[len(hits) - 1] if is_cut else listing.next
    return TracePage(
        hits=hits,
        position=(count_before + len(hits), *following) if following else None,
        matches=bool(hits or count_before or following),
        notes=await describe_unknown_tags([value for _, value in listing.unknown], ctx),
    )


async def load_page_by_relevance(
    query: SearchQuery,
    previous: Sequence[str],
    limit: int,
    fit: Fit,
    ctx: Context,
) -> TracePage:
    """Rank traces by relevance, votes and age, and return the best that are not on earlier pages.

    Costs at most three round trips: those of `rank`, and one more if only words found a trace, or a
    tag does not exist.

    Args:
        previous: The fingerprints of hits on earlier pages.
        fit: Returns as many of the first hits as fit into an answer.
    """
    ranking = await rank(query, make_trace_corpus(ctx.database), ctx)
    candidates = await _read_documents(ranking.hits, query, ctx)
    ordered = [
        (candidate, trace)
        for candidate, trace in _moderate(candidates, ctx)
        if fingerprint_hit(candidate.id) not in previous
    ]
    has_matches = ranking.matches or bool(previous)
    page = ordered[: limit if has_matches else min(limit, MAX_NEAREST)]
    ranks = count(len(previous) + 1)
    hits = fit(
        [_build_hit(trace, next(ranks), ctx.zone, match.similarity) for match, trace in page]
    )
    has_more = has_matches and len(hits) < len(ordered)
    shown_fingerprints = [*previous, *(fingerprint_hit(hit.trace_id) for hit in hits)]
    return TracePage(
        hits=hits,
        position=shown_fingerprints if has_more else None,
        matches=ranking.matches and bool(hits or previous),
        notes=await _collect_notes(ranking, ctx),
    )


def format_hit(hit: TraceHit) -> str:
    """Format a hit as text."""
    scores = [f"score: {hit.score:.2f}"] if hit.score is not None else []
    scores += [f"trust: {hit.trust:.2f}", format_votes(hit), hit.status, hit.date]
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


def _build_hit(trace: Trace, rank: int, zone: tzinfo, similarity: float | None = None) -> TraceHit:
    return build_trace_view(
        TraceHit,
        trace,
        zone,
        rank=rank,
        score=None if similarity is None else round(similarity, 2),
        context=_cut_excerpt(trace.content.context_text),
        solution=_cut_excerpt(trace.content.solution_text),
    )


def _cut_excerpt(text: str) -> str:
    return truncate(" ".join(text.split()), MAX_EXCERPT)

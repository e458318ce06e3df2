"""A page of the traces that fit a question, best first."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from functions.tools.traces.search_traces.results import Page, hit
from shared.runtime.pagination import fit_page
from shared.search.hybrid import rank
from shared.search.listing import hit_fingerprint
from shared.search.query import Degradation
from shared.traces.corpus import solved_problems, unknown_tags
from shared.traces.moderation import moderated
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.search.query import Candidate, Ranking, SearchQuery
    from shared.traces.model import Trace

    Candidates = Sequence[Candidate[Trace]]

NEAREST: Final = 3
"""Traces that are shown, for the caller to judge, where none matches."""
READ: Final = 60
"""Traces that are read at most where words alone found them: each is a read."""
WITHOUT_MEANING: Final = {
    Degradation.EMBEDDING_UNAVAILABLE: "The embedding provider cannot be reached right now: words"
    f" alone were searched, and the best {READ} can be shown.",
    Degradation.REEMBEDDING: "Everything is being embedded with another model right now: words"
    f" alone were searched, and the best {READ} can be shown.",
    Degradation.SEMANTIC_TIMED_OUT: "The search by meaning did not finish in time: words alone were"
    f" searched, and the best {READ} can be shown.",
}


async def ranked(question: SearchQuery, shown: Sequence[str], limit: int, ctx: Context) -> Page:
    """Rank by relevance, moderate by votes and age, and take what was not shown yet.

    Three round trips at most: those of `rank`, and one where words alone found something, or
    a tag does not exist.
    """
    ranking = await rank(question, solved_problems(ctx.database), ctx)
    found = in_order(await _read(ranking.hits, question, ctx), ctx.clock())
    ordered = [each for each in found if hit_fingerprint(each[0].id) not in shown]
    goes_on = ranking.matches or bool(shown)
    wanted = ordered[: limit if goes_on else min(limit, NEAREST)]
    places = count(len(shown) + 1)
    hits = fit_page([hit(trace, next(places), each.similarity) for each, trace in wanted])
    more = goes_on and len(hits) < len(ordered)
    return Page(
        hits=hits,
        position=[*shown, *(hit_fingerprint(each.trace_id) for each in hits)] if more else None,
        matches=ranking.matches and bool(hits or shown),
        notes=await _notes(ranking, ctx),
    )


def in_order(found: Candidates, now: datetime) -> list[tuple[Candidate[Trace], Trace]]:
    """The traces that were found, the best first."""
    traces = {each.id: each.document for each in found if each.document}
    scores = moderated(found, traces, now)
    known = [(each, traces[each.id]) for each in found if each.id in traces]
    return sorted(known, key=lambda pair: (-scores[pair[0].id], pair[0].id))


async def _read(found: Candidates, question: SearchQuery, ctx: Context) -> Candidates:
    """The same, with the traces that only the lists named so far."""
    missing = [each.id for each in found if each.document is None][:READ]
    read = {each.trace_id: each for each in await Traces(ctx.database).get_all(missing)}
    passing = {name: each for name, each in read.items() if question.selection.admits(each)}
    return [replace(each, document=each.document or passing.get(each.id)) for each in found]


async def _notes(ranking: Ranking[Trace], ctx: Context) -> list[str]:
    notes = await unknown_tags([value for _, value in ranking.unknown], ctx)
    if ranking.degradation in WITHOUT_MEANING and ranking.documents:
        notes.append(WITHOUT_MEANING[ranking.degradation])
    elif ranking.timeout_message:
        notes.append(ranking.timeout_message)
    if ranking.truncated:
        notes.append("More traces may bear these tags than could be checked: add a tag.")
    return notes

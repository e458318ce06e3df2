"""A page of what fits a question, best first.

A cursor carries marks of what was shown. The next page is taken from the ranking as it is by then,
without these: whatever comes or goes in between, nothing is shown twice and nothing is lost.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from functions.tools.knowledge.search_kb import advice
from functions.tools.knowledge.search_kb.results import Page, Writer, topics
from shared.knowledge.chunk import source_id_of
from shared.knowledge.corpus import knowledge
from shared.runtime.pagination import fitting
from shared.search.fusion import diversify_hits
from shared.search.hybrid import rank
from shared.search.listing import fetch_passing, hit_fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.knowledge.search_kb.results import Hit, View
    from shared.runtime.context import Context
    from shared.search.candidates import SearchQuery

NEAREST: Final = 5
"""Passages that are shown, for the caller to judge, where nothing matches."""


async def ranked(question: SearchQuery, shown: Sequence[str], view: View, ctx: Context) -> Page:
    """Rank, and read what the page still needs: three round trips deep.

    Args:
        question: What to rank by.
        shown: The marks of what earlier pages showed.
        view: How much of it is wanted.
        ctx: To find it with.
    """
    corpus = knowledge(ctx.database)
    ranking = await rank(question, corpus, ctx)
    unseen = {
        hit.id: hit
        for hit in diversify_hits(ranking.hits, source_id_of)
        if hit_fingerprint(hit.id) not in shown
    }
    known = {name: hit.document for name, hit in unseen.items() if hit.document}
    goes_on = ranking.matches or bool(shown)
    limit = view.limit if goes_on else min(view.limit, NEAREST)
    chunks, looked = await fetch_passing(
        list(unseen), limit, question.selection, corpus.documents, known
    )
    writer = Writer(view, await topics(chunks, ctx), ranking.terms)
    places = count(len(shown) + 1)
    hits = fitting([writer.hit(next(places), each, unseen[each.chunk_id]) for each in chunks])
    passed = _passed(list(unseen)[:looked], hits, cut=len(hits) < len(chunks))
    more = goes_on and len(passed) < len(unseen)
    notes = await advice.of_ranking(question, ranking, ctx)
    matches = ranking.matches and bool(hits or shown)
    if not matches:
        notes += advice.without_a_match(question, ranking, shown=bool(hits))
        notes += await advice.not_yet(ctx)
    return Page(
        hits=hits,
        position=[*shown, *map(hit_fingerprint, passed)] if more else None,
        matches=matches,
        message=" ".join(notes) or None,
    )


def _passed(looked: list[str], hits: Sequence[Hit], *, cut: bool) -> list[str]:
    """What no later page need look at: what was shown, and before it what turned out to be gone."""
    return looked[: looked.index(hits[-1].chunk_id) + 1] if cut else looked

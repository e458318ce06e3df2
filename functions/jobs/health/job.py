"""Measure each night how well search finds passages that are known to answer some queries."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Final

from functions.jobs.health.golden_queries import MOST, WANTED, golden_queries
from shared.core.log import log
from shared.knowledge.chunk import source_id_of
from shared.knowledge.corpus import knowledge
from shared.knowledge.golden_queries import TOP, NightlyScore, SearchHealth, gained_since_a_week
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report
from shared.search.filter_plan import Selection
from shared.search.fusion import diversify_hits
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery

if TYPE_CHECKING:
    from shared.knowledge.golden_queries import GoldenQuery
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

FELL: Final = 0.1
"""What recall@10 may fall below that of the week before: by two queries of twenty."""


async def health(ctx: Context, budget: Budget) -> Report:
    """Ask the golden queries, and keep the ranks of their passages for `get_stats`.

    Some hundred reads a query, as `search_kb` takes, and the embedding of each. Measured again on
    the same day, the later measurement counts. Where search goes without meaning, because nothing
    is embedded or the provider is down, or where time runs out, nothing is kept: it would not be
    comparable.
    """
    report, ranks, taken = Report(), dict[str, int](), list[float]()
    for golden in await golden_queries(ctx):
        if budget.spent:
            report.finished = False
            return report
        began = time.perf_counter()
        rank_of_it = await _rank_of(golden, ctx)
        if rank_of_it is None:
            report.note = "Search goes without meaning: nothing was measured."
            return report
        taken.append(1000 * (time.perf_counter() - began))
        ranks[golden.name] = rank_of_it
        budget.progress(1)
    if ranks:
        date = f"{ctx.clock():%Y-%m-%d}"
        milliseconds = round(median(taken), 1)
        model = ctx.embedder.model
        night = NightlyScore(date=date, ranks=ranks, model=model, milliseconds=milliseconds)
        await _keep(night, ctx, report)
    return report


async def _rank_of(golden: GoldenQuery, ctx: Context) -> int | None:
    """At which of the first ten places its passage is found; 0: at none; None: without meaning."""
    question = SearchQuery(golden.query, Mode.HYBRID, Selection())
    ranking = await rank(question, knowledge(ctx.database), ctx)
    if ranking.is_lexical_only:
        return None
    found = [hit.id for hit in diversify_hits(ranking.hits, source_id_of)][:TOP]
    return found.index(golden.chunk_id) + 1 if golden.chunk_id in found else 0


async def _keep(night: NightlyScore, ctx: Context, report: Report) -> None:
    """Keep what was measured, and warn where search finds less than it did."""
    store = SearchHealth(ctx.database)
    before = [each for each in await store.nights() if each.date != night.date]
    await store.record([*before, night])
    report.counts["queries"] = len(night.ranks)
    report.counts["found"] = sum(rank_of_it > 0 for rank_of_it in night.ranks.values())
    report.note = (
        f"recall@10 {night.recall:.2f}, MRR@10 {night.mrr:.2f}, {night.milliseconds:.0f} ms a query"
    )
    gained = gained_since_a_week(night, before)
    if gained is not None and gained < -FELL:
        log.warning(
            "search_finds_less",
            recall_at_10=round(night.recall, 3),
            mrr_at_10=round(night.mrr, 3),
            since_a_week=round(gained, 3),
            queries=len(night.ranks),
        )


async def asked(ctx: Context) -> int:
    """How many queries are asked, if there are enough chunks."""
    golden = await SearchHealth(ctx.database).golden()
    return min(MOST, WANTED + len(golden.given))


JOB = Job(
    name="health",
    title="Measure how well search finds",
    run=health,
    total=asked,
    schedule="57 4 * * *",
    capabilities=frozenset({Capability.EMBEDDING}),
)

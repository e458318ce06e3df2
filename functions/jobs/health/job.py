"""Measures every night how well search finds the chunks of golden queries."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Final

from functions.jobs.health.golden_queries import MAX_QUERIES, SET_SIZE, choose_golden_queries
from shared.core.dates import format_day
from shared.core.log import log
from shared.knowledge.chunk import parse_source_id
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.golden_queries import (
    TOP_K,
    NightlyScore,
    SearchHealth,
    compute_gain_since_last_week,
)
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

MAX_LOSS: Final = 0.1
"""A warning is logged if recall@10 falls by more than this in a week: by more than two of twenty
queries."""


async def health(ctx: Context, budget: Budget) -> Report:
    """Run the golden queries, and store the ranks of their chunks for `get_stats`.

    Each query costs about a hundred reads, as in `search_kb`, and an embedding. A second
    measurement on the same day replaces the first. If semantic search is off or time runs out,
    nothing is stored, because the score would not be comparable.
    """
    report = Report()
    ranks: dict[str, int] = {}
    durations: list[float] = []  # in milliseconds
    for golden in await choose_golden_queries(ctx):
        if budget.spent:
            report.finished = False
            return report
        began = time.perf_counter()
        chunk_rank = await _measure_rank(golden, ctx)
        if chunk_rank is None:
            report.note = "Semantic search is not available: nothing was measured."
            return report
        durations.append(1000 * (time.perf_counter() - began))
        ranks[golden.name] = chunk_rank
        budget.progress(1)
    if ranks:
        date = format_day(ctx.clock(), ctx.zone)
        milliseconds = round(median(durations), 1)
        model = ctx.embedder.model
        score = NightlyScore(date=date, ranks=ranks, model=model, milliseconds=milliseconds)
        await _store_score(score, ctx, report)
    return report


async def _measure_rank(golden: GoldenQuery, ctx: Context) -> int | None:
    """Return the rank of the query's chunk among the first TOP_K hits, from 1.

    Return 0 if the chunk is not among them, and None if semantic search is not available.
    """
    question = SearchQuery(golden.query, Mode.HYBRID, Selection())
    ranking = await rank(question, get_knowledge_corpus(ctx.database), ctx)
    if ranking.is_lexical_only:
        return None
    hit_ids = [hit.id for hit in diversify_hits(ranking.hits, parse_source_id)][:TOP_K]
    return hit_ids.index(golden.chunk_id) + 1 if golden.chunk_id in hit_ids else 0


async def _store_score(score: NightlyScore, ctx: Context, report: Report) -> None:
    """Store the score, and warn if search finds less than before."""
    search_health = SearchHealth(ctx.database)
    earlier_nights = [
        night for night in await search_health.load_nights() if night.date != score.date
    ]
    await search_health.store_nights([*earlier_nights, score])
    report.counts["queries"] = len(score.ranks)
    report.counts["found"] = sum(chunk_rank > 0 for chunk_rank in score.ranks.values())
    report.note = (
        f"recall@10 {score.recall:.2f}, MRR@10 {score.mrr:.2f}, {score.milliseconds:.0f} ms a query"
    )
    gain = compute_gain_since_last_week(score, earlier_nights)
    if gain is not None and gain < -MAX_LOSS:
        log.warning(
            "search_finds_less",
            recall_at_10=round(score.recall, 3),
            mrr_at_10=round(score.mrr, 3),
            since_a_week=round(gain, 3),
            queries=len(score.ranks),
        )


async def count_queries(ctx: Context) -> int:
    """Count the queries of a night, if the knowledge base has enough chunks for them."""
    golden = await SearchHealth(ctx.database).load_golden_set()
    return min(MAX_QUERIES, SET_SIZE + len(golden.given))


JOB = Job(
    name="health",
    title="Measure how well search finds",
    run=health,
    total=count_queries,
    schedule="57 4 * * *",
    capabilities=frozenset({Capability.EMBEDDING}),
)

"""The effect of votes and age on the ranking of traces: each part of the formula, and alternatives.

Usage: python -m benchmarks.trace_search

A trace is a solved coding problem that users share and vote on. `shared.traces.moderation` has the
formula by which votes and age change the order of a search's hits.

The test set (`tests.support.trace_set`) contains traces, siblings, which are similar traces that
answer another question, and copies of traces that were rewritten by another author. All are stored,
and the real search runs for all questions on the emulator. Then votes are assigned in one of five
ways, and each method ranks the hits:

- no votes: no method should rank worse than relevance alone;
- random: votes are independent of quality;
- unvoted answers: wrong answers are upvoted, and right answers have no votes;
- adverse: wrong answers are new and upvoted, right answers are old and downvoted;
- split: of a trace and its rewritten copy, one is upvoted and the other is downvoted. The column
  "upvoted first" shows how often the upvoted one ranks higher if both are right answers.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.emulator import use_emulator
from benchmarks.measurement import print_table
from benchmarks.ranking_metrics import compute_ndcg
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from shared.traces.corpus import build_index_entry, make_trace_corpus, select_by_tags
from shared.traces.model import Trace, TraceContent
from shared.traces.moderation import (
    HALF_LIFE_SECONDS,
    MAX_AGE_PENALTY,
    VALIDATION_BONUS,
    VOTES_WEIGHT,
    moderate_scores,
)
from shared.traces.repository import Traces
from shared.traces.trust import NEWCOMER_WEIGHT, TraceStatus, VoteTally
from tests.support.trace_set import read_trace_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from shared.runtime.context import Context
    from shared.search.query import Candidate

    ScoreMethod = Callable[[Sequence[Candidate[Trace]], Mapping[str, Trace]], dict[str, float]]
    """A function that computes scores by trace id, from the hits and from their traces by id."""
    VoteAssignment = Callable[[Trace, AbstractSet[str]], Trace]
    """A function that assigns votes to a trace, given the ids of the question's right answers."""

NOW: Final = utc_now()
OLD: Final = NOW - timedelta(days=3_650)
MANY_VOTES: Final = 200
UPVOTED: Final = VoteTally(upvotes=MANY_VOTES, up=MANY_VOTES * NEWCOMER_WEIGHT)
DOWNVOTED: Final = VoteTally(downvotes=MANY_VOTES, down=MANY_VOTES * NEWCOMER_WEIGHT)
SLIGHTLY_UPVOTED: Final = VoteTally(upvotes=3, up=3 * NEWCOMER_WEIGHT)
MAX_RANDOM_AGE_DAYS: Final = 1_500
REWORDED: Final = "reworded"
"""The kind of duplicates that another author has rewritten."""


def _compute_votes_bonus(trace: Trace) -> float:
    return VOTES_WEIGHT * (trace.tally.trust - trace.tally.doubt)


def _compute_validation_bonus(trace: Trace) -> float:
    return VALIDATION_BONUS * (trace.status is TraceStatus.VALIDATED)


def _compute_age_penalty(trace: Trace) -> float:
    half_lives = (NOW - trace.updated_at).total_seconds() / HALF_LIFE_SECONDS
    return MAX_AGE_PENALTY * (1 - math.exp2(-half_lives))


def make_score_method(score: Callable[[float, Trace], float]) -> ScoreMethod:
    """Return a method that scores each hit by its relevance, from 0 to 1, and by its trace."""
    return lambda hits, traces: {hit.id: score(hit.score, traces[hit.id]) for hit in hits}


METHODS: Final[Mapping[str, ScoreMethod]] = {
    "relevance alone": make_score_method(lambda relevance, _: relevance),
    "votes": make_score_method(
        lambda relevance, trace: relevance * (1 + _compute_votes_bonus(trace))
    ),
    "votes, validation": make_score_method(
        lambda relevance, trace: (
            relevance * (1 + _compute_votes_bonus(trace) + _compute_validation_bonus(trace))
        )
    ),
    "age": make_score_method(
        lambda relevance, trace: relevance * (1 - _compute_age_penalty(trace))
    ),
    "votes, validation, age (Carrel)": lambda hits, traces: moderate_scores(hits, traces, NOW),
    "relevance + trust": make_score_method(lambda relevance, trace: relevance + trace.tally.trust),
    # The small summand keeps traces without votes, whose trust is 0, in the order of relevance.
    "relevance * trust": make_score_method(
        lambda relevance, trace: relevance * (0.01 + trace.tally.trust)
    ),
}


@dataclass(frozen=True)
class Query:
    """The result of the search for one question.

    Attributes:
        answer_ids: The ids of the traces that answer the question, and of their copies.
        hits: The hits, as search ranks them before votes count.
    """

    answer_ids: frozenset[str]
    hits: Sequence[Candidate[Trace]]

    def rank(
        self, traces: Mapping[str, Trace], method: ScoreMethod, assign_votes: VoteAssignment
    ) -> list[str]:
        """Assign votes to the traces, and return the ids of the hits, best first."""
        voted = {hit.id: assign_votes(traces[hit.id], self.answer_ids) for hit in self.hits}
        scores = method(self.hits, voted)
        return sorted(scores, key=lambda trace_id: (-scores[trace_id], trace_id))


async def store_traces(rows: Sequence[Mapping[str, Any]], ctx: Context) -> dict[str, Trace]:
    """Store all traces, without the duplicate check."""
    traces = {}
    for row in rows:
        content = TraceContent(
            title=row["title"],
            context_text=row["context_text"],
            solution_text=row["solution_text"],
            tags=tuple(row["tags"]),
        )
        trace = Trace(
            trace_id=row["id"], content=content, contributor="a", created_at=NOW, updated_at=NOW
        )
        writes = Traces(ctx.database).build_creation_writes(
            trace, await build_index_entry(trace, ctx)
        )
        await ctx.database.commit(writes)
        traces[trace.trace_id] = trace
    return traces


async def measure(app: App) -> None:
    """Store all traces, search for all questions, and rank the hits with each method."""
    data = read_trace_set()
    ctx = app.context(Caller.of("bench"), Meter())
    # Of several copies of one trace, only the last is used.
    copies = {row["of"]: row for row in data["duplicates"] if row["kind"] == REWORDED}
    copy_ids = {original: row["id"] for original, row in copies.items()}
    rows = [*data["traces"], *data["siblings"], *copies.values()]
    traces = await store_traces(rows, ctx)
    every_trace = select_by_tags(())
    queries = []
    for row in data["queries"]:
        answer_ids = frozenset(row["ids"])
        answer_ids |= {copy_ids[trace_id] for trace_id in answer_ids & copy_ids.keys()}
        query = SearchQuery(row["query"], Mode.HYBRID, every_trace)
        ranking = await rank(query, make_trace_corpus(ctx.database), ctx)
        queries.append(Query(answer_ids, ranking.hits))
    compare_methods(queries, traces, copy_ids)


def compare_methods(
    queries: Sequence[Query], traces: Mapping[str, Trace], copy_ids: Mapping[str, str]
) -> None:
    """Print the quality of each method with each assignment of votes.

    Args:
        queries: The hits of all questions.
        traces: All traces by id, without votes.
        copy_ids: The id of the rewritten copy, by the id of its original.
    """
    upvoted_ids = choose_upvoted(copy_ids)
    assign_split_votes = make_split_assignment(copy_ids, upvoted_ids)
    assignments: dict[str, VoteAssignment] = {
        "no votes": assign_no_votes,
        "random": make_random_assignment(traces.values()),
        "unvoted answers": upvote_wrong_answers,
        "adverse": assign_adverse_votes,
        "split": assign_split_votes,
    }
    rows = []
    for title, method in METHODS.items():
        gains = [
            mean(
                compute_ndcg(query.rank(traces, method, assign_votes), query.answer_ids)
                for query in queries
            )
            for assign_votes in assignments.values()
        ]
        upvoted_first: list[bool] = []
        for query in queries:
            ranking = query.rank(traces, method, assign_split_votes)
            right_answers = [trace_id for trace_id in ranking if trace_id in query.answer_ids]
            upvoted_first += check_upvoted_first(right_answers, copy_ids, upvoted_ids)
        rows.append(
            [title, *(f"{gain:.3f}" for gain in gains), f"{100 * mean(upvoted_first):.0f} %"]
        )
    columns = ["nDCG@10", *assignments, "upvoted first"]
    print_table(f"{len(traces)} traces, {len(queries)} questions", columns, rows)


def assign_no_votes(trace: Trace, _answer_ids: AbstractSet[str]) -> Trace:
    """Return the trace as it is."""
    return trace


def upvote_wrong_answers(trace: Trace, answer_ids: AbstractSet[str]) -> Trace:
    """Assign votes to wrong answers only, and all of them for the trace."""
    return trace if trace.trace_id in answer_ids else replace(trace, tally=UPVOTED)


def assign_adverse_votes(trace: Trace, answer_ids: AbstractSet[str]) -> Trace:
    """Make right answers old and downvoted, and wrong ones upvoted."""
    if trace.trace_id in answer_ids:
        return replace(trace, tally=DOWNVOTED, updated_at=OLD)
    return replace(trace, tally=UPVOTED)


def make_random_assignment(traces: Iterable[Trace]) -> VoteAssignment:
    """Return an assignment of random votes and ages, the same in each run."""
    rng = random.Random(7)  # noqa: S311 - reproducible, no secret
    voted = {
        trace.trace_id: replace(
            trace,
            tally=rng.choice([VoteTally(), UPVOTED, DOWNVOTED, SLIGHTLY_UPVOTED]),
            updated_at=NOW - timedelta(days=rng.uniform(0, MAX_RANDOM_AGE_DAYS)),
        )
        for trace in traces
    }
    return lambda trace, _answer_ids: voted[trace.trace_id]


def choose_upvoted(copy_ids: Mapping[str, str]) -> frozenset[str]:
    """Choose from each pair of a trace and its copy: the copy and the original in turn."""
    return frozenset(
        original if position % 2 else copy
        for position, (original, copy) in enumerate(copy_ids.items())
    )


def make_split_assignment(
    copy_ids: Mapping[str, str], upvoted_ids: AbstractSet[str]
) -> VoteAssignment:
    """Return an assignment that upvotes one trace of each pair and downvotes the other."""
    tallies = {
        trace_id: UPVOTED if trace_id in upvoted_ids else DOWNVOTED
        for pair in copy_ids.items()
        for trace_id in pair
    }
    return lambda trace, _answer_ids: replace(trace, tally=tallies.get(trace.trace_id, VoteTally()))


def check_upvoted_first(
    ranking: Sequence[str], copy_ids: Mapping[str, str], upvoted_ids: AbstractSet[str]
) -> list[bool]:
    """Return for each pair in the ranking whether its upvoted trace ranks higher."""
    positions = {trace_id: position for position, trace_id in enumerate(ranking)}
    pairs = [pair for pair in copy_ids.items() if positions.keys() >= {*pair}]
    return [min(pair, key=positions.__getitem__) in upvoted_ids for pair in pairs]


def main() -> None:
    """Start an emulator, and measure."""
    with use_emulator():
        asyncio.run(_run())


async def _run() -> None:
    app = App(Settings(google_cloud_project="bench-trace-search"), embedder=LocalEmbedder())
    await measure(app)
    await app.aclose()


if __name__ == "__main__":
    main()

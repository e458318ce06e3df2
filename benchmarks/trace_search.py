"""The effect of votes and age on the search for traces: each part of the formula, and alternatives.

Usage: python -m benchmarks.trace_search

All traces of the test set (`tests.support.trace_set`) are stored with their siblings and rewritten
copies, and the real search runs for all questions on the emulator. Then votes are assigned in one
of five ways, and each method ranks the hits:

- no votes: only relevance counts, and no method should be worse;
- random: votes are independent of quality;
- unvoted answers: wrong answers are upvoted, and right answers have no votes;
- adverse: wrong answers are new and upvoted, right answers are old and downvoted;
- split: of a trace and its rewritten copy, one is upvoted and the other is downvoted. "Upvoted
  first" is how often the upvoted one of two right answers ranks higher.
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
from shared.traces.corpus import build_index_entry, select_by_tags, trace_corpus
from shared.traces.model import Trace, TraceContent
from shared.traces.moderation import (
    HALF_LIFE_SECONDS,
    MAX_AGE_PENALTY,
    VALIDATION_BONUS,
    VOTES_WEIGHT,
    moderate_scores,
)
from shared.traces.repository import Traces
from shared.traces.trust import TraceStatus, VoteTally
from tests.support.trace_set import read_trace_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.runtime.context import Context
    from shared.search.query import Candidate

    TracesById = Mapping[str, Trace]
    ScoreMethod = Callable[[Sequence[Candidate[Trace]], TracesById], dict[str, float]]
    """A function that computes the scores by id, from the hits and their traces."""

NOW: Final = utc_now()
UPVOTED: Final = VoteTally(upvotes=200, up=10_000)
DOWNVOTED: Final = VoteTally(downvotes=200, down=10_000)
OLD: Final = NOW - timedelta(days=3_650)


def _weigh_votes(trace: Trace) -> float:
    return VOTES_WEIGHT * (trace.tally.trust - trace.tally.doubt)


def _weigh_validation(trace: Trace) -> float:
    return VALIDATION_BONUS * (trace.status is TraceStatus.VALIDATED)


def _weigh_age(trace: Trace) -> float:
    half_lives = (NOW - trace.updated_at).total_seconds() / HALF_LIFE_SECONDS
    return MAX_AGE_PENALTY * (1 - math.exp2(-half_lives))


def make_score_method(score: Callable[[float, Trace], float]) -> ScoreMethod:
    """Score each hit by its relevance, from 0 to 1, and its trace."""
    return lambda hits, traces: {hit.id: score(hit.score, traces[hit.id]) for hit in hits}


METHODS: Final[Mapping[str, ScoreMethod]] = {
    "relevance alone": make_score_method(lambda relevance, _: relevance),
    "votes": make_score_method(lambda relevance, trace: relevance * (1 + _weigh_votes(trace))),
    "votes, validation": make_score_method(
        lambda relevance, trace: relevance * (1 + _weigh_votes(trace) + _weigh_validation(trace))
    ),
    "age": make_score_method(lambda relevance, trace: relevance * (1 - _weigh_age(trace))),
    "votes, validation, age (Carrel)": lambda hits, traces: moderate_scores(hits, traces, NOW),
    "peer: relevance + trust": make_score_method(
        lambda relevance, trace: relevance + trace.tally.trust
    ),
    "peer: relevance * trust": make_score_method(
        lambda relevance, trace: relevance * (0.01 + trace.tally.trust)
    ),
}


@dataclass(frozen=True)
class Query:
    """A question with the ids of its answers and its hits."""

    answers: frozenset[str]
    hits: Sequence[Candidate[Trace]]

    def rank(self, method: ScoreMethod, with_votes: Callable[[str, bool], Trace]) -> list[str]:
        """Rank the hits after `with_votes` has assigned votes to their traces; best first."""
        traces = {hit.id: with_votes(hit.id, hit.id in self.answers) for hit in self.hits}
        scores = method(self.hits, traces)
        return sorted(scores, key=lambda name: (-scores[name], name))


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
        writes = Traces(ctx.database).creation_writes(trace, await build_index_entry(trace, ctx))
        await ctx.database.commit(writes)
        traces[trace.trace_id] = trace
    return traces


async def measure(app: App) -> None:
    """Store all traces, search for all questions, and order the hits with each method."""
    data = read_trace_set()
    ctx = app.context(Caller.of("bench"), Meter())
    copies = {row["of"]: row["id"] for row in data["duplicates"] if row["kind"] == "reworded"}
    rows = [*data["traces"], *data["siblings"]]
    rows += [row for row in data["duplicates"] if row["id"] in copies.values()]
    traces = await store_traces(rows, ctx)
    queries = []
    for query in data["queries"]:
        answers = frozenset(query["ids"]) | {
            copies[name] for name in query["ids"] if name in copies
        }
        question = SearchQuery(query["query"], Mode.HYBRID, select_by_tags(()))
        ranking = await rank(question, trace_corpus(ctx.database), ctx)
        queries.append(Query(answers, ranking.hits))
    _print(queries, traces, copies)


def _print(
    queries: Sequence[Query], traces: Mapping[str, Trace], copies: Mapping[str, str]
) -> None:
    generator = random.Random(7)  # noqa: S311 - reproducible, no secret
    random_votes = {
        name: replace(
            trace,
            tally=generator.choice([VoteTally(), UPVOTED, DOWNVOTED, VoteTally(upvotes=3, up=150)]),
            updated_at=NOW - timedelta(days=generator.uniform(0, 1_500)),
        )
        for name, trace in traces.items()
    }

    def unvoted_answers(name: str, is_answer: bool) -> Trace:  # noqa: FBT001 - the signature that `ranking` expects
        return traces[name] if is_answer else replace(traces[name], tally=UPVOTED)

    def adverse(name: str, is_answer: bool) -> Trace:  # noqa: FBT001 - the signature that `ranking` expects
        if is_answer:
            return replace(traces[name], tally=DOWNVOTED, updated_at=OLD)
        return replace(traces[name], tally=UPVOTED)

    upvoted = {
        original if position % 2 else copy
        for position, (original, copy) in enumerate(copies.items())
    }
    downvoted = {*copies.keys(), *copies.values()} - upvoted

    def split(name: str, _is_answer: bool) -> Trace:  # noqa: FBT001 - see above
        tally = UPVOTED if name in upvoted else DOWNVOTED if name in downvoted else VoteTally()
        return replace(traces[name], tally=tally)

    def no_votes(name: str, _is_answer: bool) -> Trace:  # noqa: FBT001 - see above
        return traces[name]

    def randomly(name: str, _is_answer: bool) -> Trace:  # noqa: FBT001 - see above
        return random_votes[name]

    rows = []
    for title, method in METHODS.items():
        vote_assignments = [no_votes, randomly, unvoted_answers, adverse, split]
        gains = [
            mean(compute_ndcg(query.rank(method, assignment), query.answers) for query in queries)
            for assignment in vote_assignments
        ]
        upvoted_first = [
            is_first
            for query in queries
            for is_first in _check_upvoted_first(query.rank(method, split), query, copies, upvoted)
        ]
        rows.append(
            [title, *(f"{gain:.3f}" for gain in gains), f"{100 * mean(upvoted_first):.0f} %"]
        )
    columns = [
        "nDCG@10",
        "no votes",
        "random",
        "unvoted answers",
        "adverse",
        "split",
        "upvoted first",
    ]
    print_table(f"{len(traces)} traces, {len(queries)} questions", columns, rows)


def _check_upvoted_first(
    ranking: Sequence[str], query: Query, copies: Mapping[str, str], upvoted: set[str]
) -> list[bool]:
    """Return whether the upvoted one ranks higher, for each trace and copy that both answer."""
    positions = {name: position for position, name in enumerate(ranking)}
    pairs = [pair for pair in copies.items() if positions.keys() & query.answers >= {*pair}]
    return [min(pair, key=positions.__getitem__) in upvoted for pair in pairs]


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

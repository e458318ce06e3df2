"""The effect of votes and age on the search for traces: each part of moderation, and alternatives.

Usage: python -m benchmarks.trace_search

All traces of the test set, their siblings and rewritten copies are stored, and the real search on
the emulator runs for all questions. Then votes are assigned, and the hits are ordered with each
method:

- no votes: only relevance counts, and no method should be worse;
- chance: votes are independent of quality;
- unknown: wrong answers are upvoted, and right answers have no votes;
- against: wrong answers are new and upvoted, right answers are old and downvoted;
- apart: of each trace and its copy, which answer the same, one is upvoted and one downvoted.
  Measured is how often the upvoted one comes first, and the effect on everything else.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measurement import print_table
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from shared.traces.corpus import index_entry, trace_corpus, with_tags
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
from tests.support.trace_set import trace_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.runtime.context import Context
    from shared.search.query import Candidate

    TracesById = Mapping[str, Trace]
    Way = Callable[[Sequence[Candidate[Trace]], TracesById], dict[str, float]]
    """Computes scores of hits by id, from the hits and their traces."""

NOW: Final = utc_now()
LOVED: Final = VoteTally(upvotes=200, up=10_000)
HATED: Final = VoteTally(downvotes=200, down=10_000)
OLD: Final = NOW - timedelta(days=3_650)


def _votes(trace: Trace) -> float:
    return VOTES_WEIGHT * (trace.tally.trust - trace.tally.doubt)


def _validation(trace: Trace) -> float:
    return VALIDATION_BONUS * (trace.status is TraceStatus.VALIDATED)


def _age(trace: Trace) -> float:
    half_lives = (NOW - trace.updated_at).total_seconds() / HALF_LIFE_SECONDS
    return MAX_AGE_PENALTY * (1 - math.exp2(-half_lives))


def by(score: Callable[[float, Trace], float]) -> Way:
    """Score each hit by its relevance, from 0 to 1, and its trace."""
    return lambda hits, traces: {hit.id: score(hit.score, traces[hit.id]) for hit in hits}


WAYS: Final[Mapping[str, Way]] = {
    "relevance alone": by(lambda relevance, _: relevance),
    "votes": by(lambda relevance, trace: relevance * (1 + _votes(trace))),
    "votes, validation": by(
        lambda relevance, trace: relevance * (1 + _votes(trace) + _validation(trace))
    ),
    "age": by(lambda relevance, trace: relevance * (1 - _age(trace))),
    "votes, validation, age (ours)": lambda hits, traces: moderate_scores(hits, traces, NOW),
    "peer: relevance + trust": by(lambda relevance, trace: relevance + trace.tally.trust),
    "peer: relevance * trust": by(lambda relevance, trace: relevance * (0.01 + trace.tally.trust)),
}


@dataclass(frozen=True)
class Query:
    """A question with its answers and hits."""

    answers: frozenset[str]
    hits: Sequence[Candidate[Trace]]

    def ranking(self, way: Way, voted: Callable[[str, bool], Trace]) -> list[str]:
        """Return the ids, best first, after votes were assigned."""
        traces = {hit.id: voted(hit.id, hit.id in self.answers) for hit in self.hits}
        scores = way(self.hits, traces)
        return sorted(scores, key=lambda name: (-scores[name], name))


def ndcg(ranking: Sequence[str], answers: frozenset[str], depth: int = 10) -> float:
    """Normalized discounted cumulative gain; 1 if all answers come first."""
    gains = (
        1 / math.log2(place + 2) for place, name in enumerate(ranking[:depth]) if name in answers
    )
    best = sum(1 / math.log2(place + 2) for place in range(min(len(answers), depth)))
    return sum(gains) / best


async def put_in(rows: Sequence[Mapping[str, Any]], ctx: Context) -> dict[str, Trace]:
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
        writes = Traces(ctx.database).create(trace, await index_entry(trace, ctx))
        await ctx.database.commit(writes)
        traces[trace.trace_id] = trace
    return traces


async def measure(app: App) -> None:
    """Store all traces, search for all questions, and order the hits with each method."""
    data = trace_set()
    ctx = app.context(Caller.of("bench"), Meter())
    copies = {row["of"]: row["id"] for row in data["duplicates"] if row["kind"] == "reworded"}
    rows = [*data["traces"], *data["siblings"]]
    rows += [row for row in data["duplicates"] if row["id"] in copies.values()]
    traces = await put_in(rows, ctx)
    asked = []
    for query in data["queries"]:
        answers = frozenset(query["ids"]) | {
            copies[name] for name in query["ids"] if name in copies
        }
        question = SearchQuery(query["query"], Mode.HYBRID, with_tags(()))
        ranking = await rank(question, trace_corpus(ctx.database), ctx)
        asked.append(Query(answers, ranking.hits))
    _print(asked, traces, copies)


def _print(asked: Sequence[Query], traces: Mapping[str, Trace], copies: Mapping[str, str]) -> None:
    dice = random.Random(7)  # noqa: S311 - a benchmark is to print the same again
    by_chance = {
        name: replace(
            trace,
            tally=dice.choice([VoteTally(), LOVED, HATED, VoteTally(upvotes=3, up=150)]),
            updated_at=NOW - timedelta(days=dice.uniform(0, 1_500)),
        )
        for name, trace in traces.items()
    }

    def unknown(name: str, answers: bool) -> Trace:  # noqa: FBT001 - as `ranking` calls it
        return traces[name] if answers else replace(traces[name], tally=LOVED)

    def against(name: str, answers: bool) -> Trace:  # noqa: FBT001 - as `ranking` calls it
        if answers:
            return replace(traces[name], tally=HATED, updated_at=OLD)
        return replace(traces[name], tally=LOVED)

    liked = {
        original if place % 2 else copy for place, (original, copy) in enumerate(copies.items())
    }
    disliked = {*copies, *copies.values()} - liked

    def apart(name: str, _answers: bool) -> Trace:  # noqa: FBT001 - the same
        tally = LOVED if name in liked else HATED if name in disliked else VoteTally()
        return replace(traces[name], tally=tally)

    def plain(name: str, _answers: bool) -> Trace:  # noqa: FBT001 - the same
        return traces[name]

    def chance(name: str, _answers: bool) -> Trace:  # noqa: FBT001 - the same
        return by_chance[name]

    rows = []
    for title, way in WAYS.items():
        deals = [plain, chance, unknown, against, apart]
        gains = [
            mean(ndcg(query.ranking(way, deal), query.answers) for query in asked) for deal in deals
        ]
        first = [_liked_first(query.ranking(way, apart), query, copies, liked) for query in asked]
        liked_first = [value for values in first for value in values]
        rows.append([title, *(f"{gain:.3f}" for gain in gains), f"{100 * mean(liked_first):.0f} %"])
    columns = ["nDCG@10", "no votes", "chance", "unknown", "against", "apart", "liked first"]
    print_table(f"{len(traces)} traces, {len(asked)} questions", columns, rows)


def _liked_first(
    ranking: Sequence[str], asked: Query, copies: Mapping[str, str], liked: set[str]
) -> list[bool]:
    """For each pair of answers: whether the upvoted one comes first."""
    places = {name: place for place, name in enumerate(ranking)}
    pairs = [pair for pair in copies.items() if places.keys() & asked.answers >= {*pair}]
    return [min(pair, key=places.__getitem__) in liked for pair in pairs]


def main() -> None:
    """Start an emulator, and measure."""
    with run_emulator() as address:
        os.environ["FIRESTORE_EMULATOR_HOST"] = address
        asyncio.run(_run())


async def _run() -> None:
    app = App(Settings(google_cloud_project="bench-trace-search"), embedder=LocalEmbedder())
    await measure(app)
    await app.aclose()


if __name__ == "__main__":
    try:
        main()
    except EmulatorMissing as error:
        sys.exit(str(error))

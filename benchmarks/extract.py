"""The quality and costs of `extract_key_info`.

Usage: python -m benchmarks.extract [quality|costs] [test|train]

Quality: SciFact's claims are queries on twenty abstracts each (`benchmarks.extract_dataset`). All
cases are ranked in memory by the tool's own chunking and ranking, and a sample by the tool itself
on the emulator, with the same results. It is compared with each ranking alone, with `bm25s` on the
same passages, and with other weights. Tune on `train`, confirm on `test`. It takes five minutes.

Costs take another three minutes: see `benchmarks.extract_costs`.

Confidence intervals use the paired bootstrap. Probabilities are of McNemar's exact test on the
cases in which only one of two methods is right: Dietterich, "Approximate Statistical Tests for
Comparing Supervised Classification Learning Algorithms", Neural Computation 10(7), 1998.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Final

import bm25s
import numpy as np
import Stemmer

from benchmarks import extract_costs
from benchmarks.dataset import SCIFACT, CachingEmbedder, scifact_vectors
from benchmarks.extract_dataset import TRAIN, Case, Distractors, cases
from benchmarks.extract_steps import embedded_document
from benchmarks.measurement import print_table
from functions.tools.workspaces.extract_key_info.corpus import corpus_in_memory
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.upload import parse_passages
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.context import App
from shared.search.filter_plan import Selection
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from tests.support.materials import extract_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from functions.tools.workspaces.extract_key_info.corpus import WorkspaceCorpus
    from shared.runtime.context import Context
    from shared.workspaces.model import ParsedPassage

PROJECT: Final = "bench-extract"
OURS: Final = "extract_key_info"
VECTORS: Final = "vectors alone"
WORDS: Final = "BM25 alone"
PEER: Final = "peer: bm25s"
WEIGHTS: Final = (0.35, 0.5, 0.65, 0.8)
"""Weights of semantic similarity relative to words."""
EVERY: Final = 10
"""The tool itself runs one case in this many."""
DEEP: Final = 20
"""The maximum number of passages of a call."""
RESAMPLED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of the relevant passage in each case; infinite if it was not found."""

    ranks: list[float]

    def within(self, depth: int) -> list[bool]:
        """Return whether the rank is at most `depth`, for each case."""
        return [rank <= depth for rank in self.ranks]

    def reciprocal(self) -> list[float]:
        """Return the reciprocal ranks."""
        return [1 / rank for rank in self.ranks]

    def row(self, name: str) -> list[str]:
        """Return the row of the table."""
        return [
            name,
            f"{mean(self.within(1)):.3f}",
            f"{mean(self.within(5)):.3f}",
            f"{mean(self.reciprocal()):.4f}",
        ]


class RankingMethods:
    """All ranking methods, on the same passages and vectors."""

    def __init__(self, embedder: CachingEmbedder) -> None:
        """Use the local settings, with different weights."""
        settings = Settings(google_cloud_project=PROJECT)
        self.app = App(settings, embedder=embedder)
        self.ctx = self.app.context(Caller.of("reader"), Meter())
        self._weighed = {weight: _weighing(weight, embedder) for weight in WEIGHTS}
        self._stemmer = Stemmer.Stemmer("english")

    async def all(self, case: Case) -> dict[str, list[int]]:
        """Return the start positions of the passages that each method finds, best first."""
        cuts = parse_passages(case.materials, self.ctx.settings.extract_passage_characters)
        document, contents = await embedded_document(case.materials, cuts, self.ctx)
        corpus = corpus_in_memory(document, contents.parts, contents.texts, contents.vectors)
        rankings = {
            OURS: await _hybrid(case, corpus, self.ctx),
            VECTORS: await _leg(case, corpus, Mode.SEMANTIC, self.ctx),
            WORDS: await _leg(case, corpus, Mode.LEXICAL, self.ctx),
            PEER: self._peer(case, cuts),
        }
        for weight, app in self._weighed.items():
            ctx = app.context(Caller.of("reader"), Meter())
            rankings[f"weight {weight}"] = await _hybrid(case, corpus, ctx)
        return rankings

    async def aclose(self) -> None:
        """Close the apps."""
        for app in (self.app, *self._weighed.values()):
            await app.aclose()

    def _peer(self, case: Case, cuts: Sequence[ParsedPassage]) -> list[int]:
        def tokens(texts: list[str]) -> bm25s.tokenization.Tokenized:
            return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

        peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        peer.index(tokens([cut.cleaned for cut in cuts]), show_progress=False)
        asked = tokens([case.query])
        [places], [scores] = peer.retrieve(asked, k=len(cuts), show_progress=False)
        return [cuts[place].start for place, score in zip(places, scores, strict=True) if score > 0]


async def _hybrid(case: Case, corpus: WorkspaceCorpus, ctx: Context) -> list[int]:
    result = await rank_passages(case.query, corpus, len(case.materials), ctx)
    return [passage.location.span.start for passage in result.passages]


async def _leg(case: Case, corpus: WorkspaceCorpus, mode: Mode, ctx: Context) -> list[int]:
    ranking = await rank(SearchQuery(case.query, mode, Selection()), corpus.corpus, ctx)
    ids = [hit.id for hit in ranking.hits]
    locations = corpus.locations(ids)
    return [locations[passage_id].span.start for passage_id in ids]


def _weighing(weight: float, embedder: CachingEmbedder) -> App:
    settings = Settings(google_cloud_project=PROJECT, extract_semantic_weight=weight)
    return App(settings, embedder=embedder)


async def count_agreements(
    asked: Sequence[Case], expected: Sequence[Sequence[int]], beside: Distractors, app: App
) -> tuple[int, int, int]:
    """Call the tool twice: with new materials, and with stored ones.

    Returns:
        How many cases it was asked, and how often either answer was the expected one: the same
        passages in the same order.
    """
    counts = [0, 0, 0]
    for number, case in list(enumerate(asked))[::EVERY]:
        caller = Caller.of(f"{beside.name.lower()}-{number}")
        counts[0] += 1
        for turn in (1, 2):
            answer = await extract_result(
                app, case.query, caller, materials=case.materials, top_k=DEEP
            )
            rankings = [passage["start"] for passage in answer["passages"]]
            counts[turn] += answer["known"] is (turn > 1) and rankings == expected[number][:DEEP]
    return counts[0], counts[1], counts[2]


def mcnemar(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[int, int, float]:
    """Return the numbers of cases in which only one method is right, and the p-value."""
    pairs = list(zip(ours, theirs, strict=True))
    won, lost = pairs.count((True, False)), pairs.count((False, True))
    tail = sum(math.comb(won + lost, n) for n in range(min(won, lost) + 1))
    return won, lost, float(min(1.0, 2 * tail / 2 ** (won + lost)))


def confidence_interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the difference of means."""
    differences = np.asarray(ours) - np.asarray(theirs)
    drawn = np.random.default_rng(0).choice(differences, (RESAMPLED, len(differences)))
    low, high = np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def comparison(ours: Ranks, theirs: Ranks, name: str) -> str:
    """Compare our ranking with another method, in words."""
    low, high = confidence_interval(ours.reciprocal(), theirs.reciprocal())
    parts = [f"MRR {low:+.4f} to {high:+.4f}"]
    for depth in (1, 5):
        won, lost, chance = mcnemar(ours.within(depth), theirs.within(depth))
        parts.append(f"best {depth}: {won} won, {lost} lost, p = {chance:.3g}")
    return f"  against {name}: {'; '.join(parts)}"


async def measure_quality(folder: Path) -> None:
    """Rank all cases with all methods, and print the tables."""
    embedder = CachingEmbedder(LocalEmbedder(), scifact_vectors())
    ways = RankingMethods(embedder)
    await EmbeddingSpace(ways.ctx.database).claim(embedder)
    for beside in Distractors:
        asked = cases(folder, beside)
        rankings = [await ways.all(case) for case in asked]
        ranks = {
            name: _ranks(asked, [ranking[name] for ranking in rankings]) for name in rankings[0]
        }
        title = f"{folder.name}: {len(asked)} cases, beside the right abstract {beside}"
        columns = ("", "first", "in the best five", "MRR")
        print_table(title, columns, [rank.row(name) for name, rank in ranks.items()])
        for name in (VECTORS, WORDS):
            print(comparison(ranks[OURS], ranks[name], name))  # noqa: T201 - a benchmark prints
        expected = [ranking[OURS] for ranking in rankings]
        sample, memory, store = await count_agreements(asked, expected, beside, ways.app)
        print(  # noqa: T201 - a benchmark prints
            f"  the tool itself in {sample} cases: the same passages in the same order in {memory}"
            f" just corpus, {store} from the store"
        )
    await ways.aclose()
    await embedder.aclose()


def _ranks(asked: Sequence[Case], rankings: Sequence[Sequence[int]]) -> Ranks:
    ranks = [case.rank(starts) for case, starts in zip(asked, rankings, strict=True)]
    return Ranks([math.inf if rank is None else rank for rank in ranks])


async def measure(folder: Path, parts: Sequence[str]) -> None:
    """Measure these parts."""
    if "quality" in parts:
        await measure_quality(folder)
    if "costs" in parts:
        await extract_costs.measure()


def main(arguments: Sequence[str]) -> None:
    """Measure the named parts, by default all, on the test claims."""
    if not TRAIN.is_dir():
        sys.exit(f"Skipped: {TRAIN} is not here. It is no part of the project.")
    folder = TRAIN if "train" in arguments else SCIFACT
    parts = [ranking for ranking in ("quality", "costs") if ranking in arguments] or [
        "quality",
        "costs",
    ]
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(measure(folder, parts))
    except EmulatorMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])

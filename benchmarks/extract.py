"""`extract_key_info`: how often what answers comes first, and what calls cost.

Usage: python -m benchmarks.extract [quality|costs] [test|train]

Quality: SciFact's claims, each asked of twenty abstracts (`benchmarks.extract_set`). All cases go
through the tool's own cutting and ranking in memory, and a sample through the tool itself, on the
emulator, where both must find the same. Beside it each leg alone, `bm25s` as a peer over the same
passages, and other weights. Choose on `train`, confirm on `test`. It takes five minutes.

Costs, another three minutes: see `benchmarks.extract_costs`.

The intervals are of the paired bootstrap, the probabilities of McNemar's exact test over the cases
in which one of two ways alone is right: Dietterich, "Approximate Statistical Tests for Comparing
Supervised Classification Learning Algorithms", Neural Computation 10(7), 1998.
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
from benchmarks.base import SCIFACT, Remembering, known_vectors
from benchmarks.extract_set import TRAIN, Beside, Case, cases
from benchmarks.extract_steps import embedded_document
from benchmarks.measuring import print_table
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
"""Of meaning beside words."""
EVERY: Final = 10
"""One case in so many goes through the tool itself."""
DEEP: Final = 20
"""As many passages as a call returns at most."""
RESAMPLED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of the right passage in all cases; infinite where it was not found."""

    ranks: list[float]

    def within(self, depth: int) -> list[bool]:
        """In which cases it is among the best."""
        return [rank <= depth for rank in self.ranks]

    def reciprocal(self) -> list[float]:
        """1 where it is first, 1/2 where it is second."""
        return [1 / rank for rank in self.ranks]

    def row(self, name: str) -> list[str]:
        """The measures of it."""
        return [
            name,
            f"{mean(self.within(1)):.3f}",
            f"{mean(self.within(5)):.3f}",
            f"{mean(self.reciprocal()):.4f}",
        ]


class Ways:
    """The ways to rank, all over the same passages and vectors."""

    def __init__(self, embedder: Remembering) -> None:
        """Rank with the settings of a laptop, but for the weight."""
        settings = Settings(google_cloud_project=PROJECT)
        self.app = App(settings, embedder=embedder)
        self.ctx = self.app.context(Caller.of("reader"), Meter())
        self._weighed = {weight: _weighing(weight, embedder) for weight in WEIGHTS}
        self._stemmer = Stemmer.Stemmer("english")

    async def all(self, case: Case) -> dict[str, list[int]]:
        """Where the passages start that each way finds, the best first."""
        cuts = parse_passages(case.materials, self.ctx.settings.extract_passage_characters)
        document, contents = await embedded_document(case.materials, cuts, self.ctx)
        corpus = corpus_in_memory(document, contents.parts, contents.texts, contents.vectors)
        found = {
            OURS: await _hybrid(case, corpus, self.ctx),
            VECTORS: await _leg(case, corpus, Mode.SEMANTIC, self.ctx),
            WORDS: await _leg(case, corpus, Mode.LEXICAL, self.ctx),
            PEER: self._peer(case, cuts),
        }
        for weight, app in self._weighed.items():
            ctx = app.context(Caller.of("reader"), Meter())
            found[f"weight {weight}"] = await _hybrid(case, corpus, ctx)
        return found

    async def aclose(self) -> None:
        """Close what was opened."""
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


def _weighing(weight: float, embedder: Remembering) -> App:
    settings = Settings(google_cloud_project=PROJECT, extract_semantic_weight=weight)
    return App(settings, embedder=embedder)


async def agreements(
    asked: Sequence[Case], expected: Sequence[Sequence[int]], beside: Beside, app: App
) -> tuple[int, int, int]:
    """Ask the tool itself, twice: what was just corpus, and what is stored.

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
            found = [passage["start"] for passage in answer["passages"]]
            counts[turn] += answer["known"] is (turn > 1) and found == expected[number][:DEEP]
    return counts[0], counts[1], counts[2]


def mcnemar(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[int, int, float]:
    """In how many cases one alone is right, each, and how probable as much is by chance alone."""
    pairs = list(zip(ours, theirs, strict=True))
    won, lost = pairs.count((True, False)), pairs.count((False, True))
    tail = sum(math.comb(won + lost, n) for n in range(min(won, lost) + 1))
    return won, lost, float(min(1.0, 2 * tail / 2 ** (won + lost)))


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Within which the difference of the means lies, with 95 %."""
    differences = np.asarray(ours) - np.asarray(theirs)
    drawn = np.random.default_rng(0).choice(differences, (RESAMPLED, len(differences)))
    low, high = np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def compared(ours: Ranks, theirs: Ranks, name: str) -> str:
    """Whether ours is better than another way, in words."""
    low, high = interval(ours.reciprocal(), theirs.reciprocal())
    told = [f"MRR {low:+.4f} to {high:+.4f}"]
    for depth in (1, 5):
        won, lost, chance = mcnemar(ours.within(depth), theirs.within(depth))
        told.append(f"best {depth}: {won} won, {lost} lost, p = {chance:.3g}")
    return f"  against {name}: {'; '.join(told)}"


async def quality(folder: Path) -> None:
    """Rank in all cases in every way, and print the tables."""
    embedder = Remembering(LocalEmbedder(), known_vectors())
    ways = Ways(embedder)
    await EmbeddingSpace(ways.ctx.database).claim(embedder)
    for beside in Beside:
        asked = cases(folder, beside)
        found = [await ways.all(case) for case in asked]
        ranks = {name: _ranks(asked, [each[name] for each in found]) for name in found[0]}
        title = f"{folder.name}: {len(asked)} cases, beside the right abstract {beside}"
        columns = ("", "first", "in the best five", "MRR")
        print_table(title, columns, [rank.row(name) for name, rank in ranks.items()])
        for name in (VECTORS, WORDS):
            print(compared(ranks[OURS], ranks[name], name))  # noqa: T201 - a benchmark prints
        expected = [each[OURS] for each in found]
        sample, memory, store = await agreements(asked, expected, beside, ways.app)
        print(  # noqa: T201 - a benchmark prints
            f"  the tool itself in {sample} cases: the same passages in the same order in {memory}"
            f" just corpus, {store} from the store"
        )
    await ways.aclose()
    await embedder.aclose()


def _ranks(asked: Sequence[Case], found: Sequence[Sequence[int]]) -> Ranks:
    ranks = [case.rank(starts) for case, starts in zip(asked, found, strict=True)]
    return Ranks([math.inf if rank is None else rank for rank in ranks])


async def measure(folder: Path, parts: Sequence[str]) -> None:
    """Measure these parts."""
    if "quality" in parts:
        await quality(folder)
    if "costs" in parts:
        await extract_costs.measure()


def main(arguments: Sequence[str]) -> None:
    """Measure what is named, by default everything, on the test claims."""
    if not TRAIN.is_dir():
        sys.exit(f"Skipped: {TRAIN} is not here. It is no part of the project.")
    folder = TRAIN if "train" in arguments else SCIFACT
    parts = [each for each in ("quality", "costs") if each in arguments] or ["quality", "costs"]
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(measure(folder, parts))
    except EmulatorMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])

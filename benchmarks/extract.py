"""The quality and costs of `extract_key_info`.

Usage: python -m benchmarks.extract [quality|costs] [test|train]

Quality: each of SciFact's claims is a query on twenty abstracts (`benchmarks.extract_dataset`). The
tool's chunking and ranking process all cases in memory. The tool itself runs a sample of the cases
on the emulator, and must return the same passages. The ranking is compared with vectors alone, BM25
alone, `bm25s` on the same passages, and other weights. Tune on `train`, confirm on `test`. This
part takes five minutes.

Costs take another three minutes: see `benchmarks.extract_costs`.

Confidence intervals use the paired bootstrap. P-values are those of McNemar's exact test on the
cases in which only one of two methods is right: Dietterich, "Approximate Statistical Tests for
Comparing Supervised Classification Learning Algorithms", Neural Computation 10(7), 1998.
"""

from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Final, NamedTuple

import bm25s
import numpy as np
import Stemmer

from benchmarks import extract_costs
from benchmarks.dataset import CachingEmbedder, load_scifact_vectors
from benchmarks.emulator import use_emulator
from benchmarks.extract_dataset import Case, Distractors, make_cases
from benchmarks.extract_steps import embed_document
from benchmarks.measurement import print_table
from benchmarks.scifact import SCIFACT, TRAIN, require_file
from functions.tools.workspaces.extract_key_info.corpus import make_memory_corpus
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.upload import parse_passages
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
PARTS: Final = ("quality", "costs")
HYBRID: Final = "extract_key_info"
SEMANTIC_ONLY: Final = "vectors alone"
LEXICAL_ONLY: Final = "BM25 alone"
PEER: Final = "peer: bm25s"
WEIGHTS: Final = (0.35, 0.5, 0.65, 0.8)
"""The weights of semantic similarity relative to words."""
SAMPLING_INTERVAL: Final = 10
"""The tool itself runs one of this many cases."""
MAX_PASSAGES: Final = 20
"""The maximum number of passages of a call."""
BOOTSTRAP_SAMPLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of the first relevant passage of each case; infinite if the method missed it."""

    ranks: list[float]

    def find_in_best(self, depth: int) -> list[bool]:
        """Return for each case whether the rank is at most `depth`."""
        return [rank <= depth for rank in self.ranks]

    def compute_reciprocals(self) -> list[float]:
        """Return the reciprocal ranks."""
        return [1 / rank for rank in self.ranks]

    def make_row(self, name: str) -> list[str]:
        """Return the row of the table."""
        return [
            name,
            f"{mean(self.find_in_best(1)):.3f}",
            f"{mean(self.find_in_best(5)):.3f}",
            f"{mean(self.compute_reciprocals()):.4f}",
        ]


@dataclass(frozen=True, slots=True)
class Agreements:
    """How often the tool returned the passages of the ranking in memory, in the same order.

    Attributes:
        cases: The number of cases.
        new_materials: The agreements of first calls, which upload the materials.
        stored_materials: The agreements of second calls, which use the stored materials.
    """

    cases: int
    new_materials: int
    stored_materials: int


class RankingMethods:
    """All ranking methods, on the same passages and vectors."""

    def __init__(self, embedder: CachingEmbedder) -> None:
        """Create an app for each semantic weight."""
        settings = Settings(google_cloud_project=PROJECT)
        self.app = App(settings, embedder=embedder)
        self.ctx = self.app.context(Caller.of("reader"), Meter())
        self._apps_by_weight = {weight: _make_app(weight, embedder) for weight in WEIGHTS}
        self._stemmer = Stemmer.Stemmer("english")

    async def rank(self, case: Case) -> dict[str, list[int]]:
        """Rank the passages with each method, best first, and return their start positions."""
        passages = parse_passages(case.materials, self.ctx.settings.extract_passage_characters)
        document, contents = await embed_document(case.materials, passages, self.ctx)
        corpus = make_memory_corpus(document, contents.parts, contents.texts, contents.vectors)
        rankings = {
            HYBRID: await _rank_hybrid(case, corpus, self.ctx),
            SEMANTIC_ONLY: await _rank_in_mode(case, corpus, Mode.SEMANTIC, self.ctx),
            LEXICAL_ONLY: await _rank_in_mode(case, corpus, Mode.LEXICAL, self.ctx),
            PEER: self._rank_by_peer(case, passages),
        }
        for weight, app in self._apps_by_weight.items():
            ctx = app.context(Caller.of("reader"), Meter())
            rankings[f"weight {weight}"] = await _rank_hybrid(case, corpus, ctx)
        return rankings

    async def aclose(self) -> None:
        """Close the apps."""
        for app in (self.app, *self._apps_by_weight.values()):
            await app.aclose()

    def _rank_by_peer(self, case: Case, passages: Sequence[ParsedPassage]) -> list[int]:
        def tokens(texts: list[str]) -> bm25s.tokenization.Tokenized:
            return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

        peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        peer.index(tokens([passage.cleaned for passage in passages]), show_progress=False)
        query = tokens([case.query])
        [indexes], [scores] = peer.retrieve(query, k=len(passages), show_progress=False)
        return [
            passages[index].start for index, score in zip(indexes, scores, strict=True) if score > 0
        ]


async def _rank_hybrid(case: Case, corpus: WorkspaceCorpus, ctx: Context) -> list[int]:
    result = await rank_passages(case.query, corpus, len(case.materials), ctx)
    return [passage.location.span.start for passage in result.passages]


async def _rank_in_mode(case: Case, corpus: WorkspaceCorpus, mode: Mode, ctx: Context) -> list[int]:
    ranking = await rank(SearchQuery(case.query, mode, Selection()), corpus.corpus, ctx)
    ids = [hit.id for hit in ranking.hits]
    locations = corpus.locate(ids)
    return [locations[passage_id].span.start for passage_id in ids]


def _make_app(weight: float, embedder: CachingEmbedder) -> App:
    settings = Settings(google_cloud_project=PROJECT, extract_semantic_weight=weight)
    return App(settings, embedder=embedder)


async def count_agreements(
    test_cases: Sequence[Case],
    expected: Sequence[Sequence[int]],
    distractors: Distractors,
    app: App,
) -> Agreements:
    """Call the tool twice for a sample of the cases: with new materials, and with stored ones."""
    sample = list(enumerate(test_cases))[::SAMPLING_INTERVAL]
    agreements = {"new": 0, "stored": 0}
    for number, case in sample:
        caller = Caller.of(f"{distractors.name.lower()}-{number}")
        for materials in ("new", "stored"):
            answer = await extract_result(
                app, case.query, caller, materials=case.materials, top_k=MAX_PASSAGES
            )
            starts = [passage["start"] for passage in answer["passages"]]
            agreements[materials] += (
                answer["known"] is (materials == "stored")
                and starts == expected[number][:MAX_PASSAGES]
            )
    return Agreements(len(sample), agreements["new"], agreements["stored"])


class McNemarResult(NamedTuple):
    """The result of McNemar's exact test of two methods.

    Attributes:
        won: The number of cases in which only ours is right.
        lost: The number of cases in which only theirs is right.
        p_value: The two-sided p-value.
    """

    won: int
    lost: int
    p_value: float


def compare_by_mcnemar(ours: Sequence[bool], theirs: Sequence[bool]) -> McNemarResult:
    """Compare two methods, given for each case whether they are right."""
    pairs = list(zip(ours, theirs, strict=True))
    won, lost = pairs.count((True, False)), pairs.count((False, True))
    tail = sum(math.comb(won + lost, n) for n in range(min(won, lost) + 1))
    return McNemarResult(won, lost, float(min(1.0, 2 * tail / 2 ** (won + lost))))


def compute_confidence_interval(
    ours: Sequence[float], theirs: Sequence[float]
) -> tuple[float, float]:
    """Return the 95 % confidence interval of the difference of means."""
    differences = np.asarray(ours) - np.asarray(theirs)
    samples = np.random.default_rng(0).choice(differences, (BOOTSTRAP_SAMPLES, len(differences)))
    low, high = np.quantile(samples.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def describe_comparison(ours: Ranks, theirs: Ranks, name: str) -> str:
    """Describe how the tool's ranking compares with another method."""
    low, high = compute_confidence_interval(
        ours.compute_reciprocals(), theirs.compute_reciprocals()
    )
    parts = [f"MRR {low:+.4f} to {high:+.4f}"]
    for depth in (1, 5):
        test = compare_by_mcnemar(ours.find_in_best(depth), theirs.find_in_best(depth))
        parts.append(f"best {depth}: {test.won} won, {test.lost} lost, p = {test.p_value:.3g}")
    return f"  against {name}: {'; '.join(parts)}"


async def measure_quality(folder: Path) -> None:
    """Rank all cases with all methods, and print the tables."""
    embedder = CachingEmbedder(LocalEmbedder(), load_scifact_vectors())
    methods = RankingMethods(embedder)
    await EmbeddingSpace(methods.ctx.database).claim(embedder)
    for distractors in Distractors:
        test_cases = make_cases(folder, distractors)
        rankings = [await methods.rank(case) for case in test_cases]
        ranks = {
            name: _rank_cases(test_cases, [ranking[name] for ranking in rankings])
            for name in rankings[0]
        }
        title = f"{folder.name}: {len(test_cases)} cases, the relevant abstract and {distractors}"
        columns = ("", "at rank 1", "in the best five", "MRR")
        print_table(title, columns, [rank.make_row(name) for name, rank in ranks.items()])
        for name in (SEMANTIC_ONLY, LEXICAL_ONLY):
            print(describe_comparison(ranks[HYBRID], ranks[name], name))
        expected = [ranking[HYBRID] for ranking in rankings]
        agreements = await count_agreements(test_cases, expected, distractors, methods.app)
        print(
            f"  the tool itself in {agreements.cases} cases: the expected passages and order in"
            f" {agreements.new_materials} with new materials, in {agreements.stored_materials}"
            " with stored ones"
        )
    await methods.aclose()
    await embedder.aclose()


def _rank_cases(test_cases: Sequence[Case], rankings: Sequence[Sequence[int]]) -> Ranks:
    ranks = [case.rank(starts) for case, starts in zip(test_cases, rankings, strict=True)]
    return Ranks([math.inf if rank is None else rank for rank in ranks])


async def measure(folder: Path, parts: Sequence[str]) -> None:
    """Measure the quality, the costs, or both."""
    if "quality" in parts:
        await measure_quality(folder)
    if "costs" in parts:
        await extract_costs.measure()


def main(arguments: Sequence[str]) -> None:
    """Measure the named parts, by default all, and by default on the test claims."""
    require_file(TRAIN)
    folder = TRAIN if "train" in arguments else SCIFACT
    parts = [part for part in PARTS if part in arguments] or PARTS
    with use_emulator():
        asyncio.run(measure(folder, parts))


if __name__ == "__main__":
    main(sys.argv[1:])

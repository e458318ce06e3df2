"""Alternatives for the text by which a trace is embedded, and for the near-duplicate rule.

Usage: python -m benchmarks.trace_duplicates

The test set (`tests.support.trace_set`) contains:

- traces;
- `duplicates`: traces that were edited, or rewritten by another author;
- `siblings`: similar traces that are not duplicates, with the same problem and another solution,
  the same solution of another problem, the same log with another cause, or the same technology;
- questions with the ids of their answers.

To compare the embedded texts, all questions are searched for twice: among traces and siblings, and
again with rewritten copies in place of the traces. Near-duplicate rules are compared on all pairs.
A rule is tuned on the traces with odd numbers, and confirmed on those with even numbers and on the
held-out traces, which were written later. The benchmark takes half a minute.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measurement import print_table
from benchmarks.ranking_metrics import compute_ndcg
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.index.bm25 import Postings, Totals, pack, score
from shared.search.fusion import Scores, fuse
from shared.text.terms import compute_resemblance, terms
from shared.traces.near_duplicates import MAX_CANDIDATES, TraceTerms, is_near_duplicate
from tests.support.trace_set import read_trace_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

LEADING_CHARACTERS: Final = 400
"""How much of the problem is embedded before the solution."""

KINDS: Final = (
    "edited",
    "reworded",
    "solution",
    "remedy",
    "problem",
    "template",
    "siblings",
    "field",
)
"""The kinds of pairs.

- "edited" and "reworded": a copy and its original.
- "solution", "remedy", "problem" and "template": a sibling and its trace, with the same problem and
  another solution, the same remedy of another problem, another problem, or the same log.
- "siblings": two siblings of one trace.
- "field": all other pairs.
"""

HALVES: Final = ("odd", "even", "held out")


@dataclass(frozen=True)
class Trace:
    """A trace of the test set.

    Attributes:
        id: The id in the file.
        related_to: The id of the trace whose duplicate or sibling this is; else its own id.
        kind: "trace"; "edited" or "reworded" for a duplicate; the kind of a sibling.
        is_held_out: Whether it was written after the rule had been chosen.
    """

    id: str
    related_to: str
    kind: str
    title: str
    context: str
    solution: str
    tags: str
    is_held_out: bool

    @property
    def original(self) -> str:
        """The id of the original for a copy, else its own id."""
        return self.related_to if self.kind in {"edited", "reworded"} else self.id

    @cached_property
    def words(self) -> TraceTerms:
        """The terms that near-duplicate rules compare."""
        return TraceTerms.of(self.title, self.context, self.solution)

    @cached_property
    def counts(self) -> Counter[str]:
        """The term frequencies for BM25."""
        return Counter(terms(f"{self.title} {self.context} {self.solution} {self.tags}"))


def build_embedding_text(trace: Trace) -> str:
    """Return the text in use: the embedder may cut its end, but not the solution's beginning."""
    leading = trace.context[:LEADING_CHARACTERS]
    rest = trace.context[LEADING_CHARACTERS:]
    return f"{trace.title} {leading} {trace.solution} {rest}"


def build_leading_text(trace: Trace) -> str:
    """Return the title and the beginnings of problem and solution."""
    leading = (text[:LEADING_CHARACTERS] for text in (trace.context, trace.solution))
    return " ".join([trace.title, *leading])


Text = Callable[[Trace], str]
TEXTS: Final[Mapping[str, Sequence[Text]]] = {
    "title, problem": [lambda trace: f"{trace.title} {trace.context}"],
    "title, problem, solution": [lambda trace: f"{trace.title} {trace.context} {trace.solution}"],
    "title, solution, problem": [lambda trace: f"{trace.title} {trace.solution} {trace.context}"],
    f"title, {LEADING_CHARACTERS} of problem, {LEADING_CHARACTERS} of solution": [
        build_leading_text
    ],
    f"title, {LEADING_CHARACTERS} of problem, solution, rest": [build_embedding_text],
    "two vectors, averaged": [
        lambda trace: f"{trace.title} {trace.context}",
        lambda trace: trace.solution,
    ],
}
"""The alternatives by name. A trace with several texts has the mean of their vectors."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its vector and answers."""

    text: str
    vector: Array
    answers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two traces and the cosine similarity of their vectors."""

    first: Trace
    second: Trace
    cosine: float

    @property
    def kind(self) -> str:
        """The kind of the pair, one of `KINDS`; empty for two copies of one trace."""
        first, second = self.first, self.second
        if first.original == second.original:
            kinds = {first.kind, second.kind} - {"trace"}
            return kinds.pop() if len(kinds) == 1 and "trace" in {first.kind, second.kind} else ""
        for sibling, related_to in ((first, second), (second, first)):
            if sibling.original != sibling.related_to and sibling.related_to == related_to.original:
                return sibling.kind
        return "siblings" if first.related_to == second.related_to else "field"

    @property
    def half(self) -> str:
        """One of `HALVES`; empty if the two traces belong to different halves."""
        if self.first.is_held_out or self.second.is_held_out:
            return "held out"
        halves = {
            ("even", "odd")[int(trace.related_to[1:3]) % 2] for trace in (self.first, self.second)
        }
        return halves.pop() if len(halves) == 1 else ""


def read_traces(data: Mapping[str, list[dict[str, Any]]]) -> list[Trace]:
    """Return all traces of the test set, with duplicates and siblings."""
    return [
        Trace(
            id=row["id"],
            related_to=row.get("of", row.get("near", row["id"])),
            kind=row.get("kind", "trace"),
            title=row["title"],
            context=row["context_text"],
            solution=row["solution_text"],
            tags=" ".join(row["tags"]),
            is_held_out=row.get("held_out", False),
        )
        for part in ("traces", "duplicates", "siblings")
        for row in data[part]
    ]


async def embed(texts: Iterable[str]) -> Array:
    """Return the vectors of texts, one per row."""
    embedder = LocalEmbedder()
    vectors = await embedder.embed(list(texts), Purpose.DOCUMENT)
    await embedder.aclose()
    return np.array(vectors)


async def embed_traces(traces: Sequence[Trace], texts: Sequence[Text]) -> dict[str, Array]:
    """Return the vector of each trace: the normalized mean over its texts."""
    summed = sum([await embed(map(text, traces)) for text in texts])
    unit = summed / np.linalg.norm(summed, axis=1, keepdims=True)
    return {trace.id: row for trace, row in zip(traces, unit, strict=True)}


def make_pools(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Return the search pools: traces and siblings; and rewritten traces and siblings."""
    reworded = {trace.original: trace for trace in traces if trace.kind == "reworded"}
    originals = [trace for trace in traces if trace.original == trace.id]
    return [originals, [reworded.get(trace.id, trace) for trace in originals]]


def compute_bm25(pool: Sequence[Trace], text: str) -> dict[str, float]:
    """Return the BM25 scores of the traces that contain a term of the question."""
    entries: dict[str, dict[str, int]] = defaultdict(dict)
    for trace in pool:
        for term, tf in trace.counts.items():
            entries[term][trace.id] = pack(tf, trace.counts.total())
    totals = Totals(len(pool), sum(trace.counts.total() for trace in pool))
    question_terms = terms(text)
    return score(
        question_terms,
        {term: Postings(len(entries[term]), entries[term]) for term in question_terms},
        totals,
    )


def rank_pool(
    pool: Sequence[Trace],
    vectors: Mapping[str, Array],
    question: Question,
    bm25: Mapping[str, float],
) -> tuple[list[str], list[str]]:
    """Rank a pool by vectors and by hybrid search, and return the hits' originals, best first."""
    original = {trace.id: trace.original for trace in pool}
    similarities = {trace_id: float(vectors[trace_id] @ question.vector) for trace_id in original}
    hybrid = fuse(
        {trace_id: Scores(similarities[trace_id], bm25.get(trace_id, 0.0)) for trace_id in original}
    )
    by_meaning = sorted(similarities, key=lambda trace_id: (-similarities[trace_id], trace_id))
    return [original[trace_id] for trace_id in by_meaning], [
        original[trace_id] for trace_id, _ in hybrid
    ]


async def measure_texts(traces: Sequence[Trace], questions: Sequence[Question]) -> None:
    """Print the search quality of each kind of text."""
    search_pools = make_pools(traces)
    bm25 = [[compute_bm25(pool, question.text) for question in questions] for pool in search_pools]
    rows = []
    for name, texts in TEXTS.items():
        vectors = await embed_traces(traces, texts)
        semantic, hybrid = [], []
        for pool, question_scores in zip(search_pools, bm25, strict=True):
            for question, scores in zip(questions, question_scores, strict=True):
                by_meaning, by_both = rank_pool(pool, vectors, question, scores)
                semantic.append((by_meaning, question.answers))
                hybrid.append((by_both, question.answers))
        rows.append([name, *format_quality(semantic), *format_quality(hybrid)])
    columns = ["what is embedded", "by meaning: nDCG@10", "first answers"]
    title = f"{len(questions)} questions, {len(search_pools[0])} traces, by two authors"
    print_table(title, [*columns, "hybrid: nDCG@10", "first answers"], rows)


def format_quality(results: Sequence[tuple[list[str], frozenset[str]]]) -> list[str]:
    """Return the mean nDCG@10, and the share of rankings that begin with an answer."""
    return [
        f"{mean(compute_ndcg(ranking, answers) for ranking, answers in results):.3f}",
        f"{mean(ranking[0] in answers for ranking, answers in results):.3f}",
    ]


def format_range(measures: Iterable[float]) -> str:
    """Format the minimum, the median and the maximum."""
    values = list(measures)
    return f"{min(values):.2f} {median(values):.2f} {max(values):.2f}"


def measure_pairs(pairs: Sequence[Pair]) -> None:
    """Print the similarities of each kind of pair, and how each rule decides on them."""
    pairs_by_kind: dict[str, list[Pair]] = {kind: [] for kind in KINDS}
    for pair in pairs:
        if pair.kind:
            pairs_by_kind[pair.kind].append(pair)
    measures: Mapping[str, Callable[[Pair], float]] = {
        "cosine": lambda pair: pair.cosine,
        "problems": lambda pair: compute_resemblance(
            pair.first.words.problem, pair.second.words.problem
        ),
        "solutions": lambda pair: compute_resemblance(
            pair.first.words.solution, pair.second.words.solution
        ),
        "names": lambda pair: compute_resemblance(pair.first.words.names, pair.second.words.names),
    }
    rows = [
        [
            kind,
            str(len(kind_pairs)),
            *(format_range(map(measure, kind_pairs)) for measure in measures.values()),
        ]
        for kind, kind_pairs in pairs_by_kind.items()
    ]
    title = (
        "Cosine; resemblance of problems, solutions, names in solutions: minimum, median, maximum"
    )
    print_table(title, ["pairs", "", *measures], rows)
    rules: Mapping[str, Callable[[Pair], bool]] = {
        "rule": lambda pair: is_near_duplicate(pair.first.words, pair.second.words),
        "cosine 0.9": lambda pair: pair.cosine >= 0.9,
        "cosine 0.8": lambda pair: pair.cosine >= 0.8,
    }
    columns = [(half, rule) for half in HALVES for rule in rules]
    rows = []
    for kind, kind_pairs in pairs_by_kind.items():
        cells = []
        for half, rule in columns:
            decisions = [rules[rule](pair) for pair in kind_pairs if pair.half == half]
            cells.append(f"{sum(decisions)} of {len(decisions)}")
        rows.append([kind, *cells])
    title = "Pairs taken for near-duplicates"
    print_table(title, ["pairs", *(f"{half}: {rule}" for half, rule in columns)], rows)


def measure_candidates(traces: Sequence[Trace], vectors: Mapping[str, Array]) -> None:
    """Print how often the nearest candidates include the original of a copy."""
    candidates = [trace for trace in traces if trace.original == trace.id]
    rows = []
    for kind in ("edited", "reworded"):
        ranks = []
        for copy in (trace for trace in traces if trace.kind == kind):
            similarities = {
                trace.id: float(vectors[trace.id] @ vectors[copy.id]) for trace in candidates
            }
            ranks.append(
                sum(value > similarities[copy.original] for value in similarities.values())
            )
        depths = (1, MAX_CANDIDATES, 10)
        cells = [f"{sum(position < depth for position in ranks)}" for depth in depths]
        rows.append([kind, str(len(ranks)), *cells])
    columns = ["duplicates", "", "nearest", f"nearest {MAX_CANDIDATES}", "nearest 10"]
    print_table("Duplicates whose original is among the nearest, by vector", columns, rows)


async def main() -> None:
    """Run all measurements."""
    data = read_trace_set()
    traces = read_traces(data)
    question_vectors = await embed(row["query"] for row in data["queries"])
    questions = [
        Question(row["query"], vector, frozenset(row["ids"]))
        for row, vector in zip(data["queries"], question_vectors, strict=True)
    ]
    await measure_texts(traces, questions)
    vectors = await embed_traces(traces, [build_embedding_text])
    measure_candidates(traces, vectors)
    pairs = [
        Pair(first, second, float(vectors[first.id] @ vectors[second.id]))
        for first, second in combinations(traces, 2)
    ]
    measure_pairs(pairs)


if __name__ == "__main__":
    asyncio.run(main())

"""Which text of a trace to embed, and which traces are near-duplicates, on our test set.

Usage: python -m benchmarks.trace_duplicates

The test set contains traces; `duplicates`, which are edited or rewritten by another author;
`siblings`, which are similar but not duplicates: the same problem with another solution, the same
solution of another problem, the same log with another cause, the same technology; and questions
with the ids of their answers. It takes half a minute.

Texts to embed are compared by searching for all questions, once among traces and siblings, and once
with rewritten copies instead of the traces. Near-duplicates are compared on all pairs. A rule is
tuned on the half with odd numbers and confirmed on the even half. The held-out part was written
later, and shares names with the rest.
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
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.index.bm25 import Postings, Totals, pack, score
from shared.search.fusion import Scores, fuse
from shared.text.terms import resemblance, terms
from shared.traces.near_duplicates import MAX_CANDIDATES, TraceTerms, is_near_duplicate
from tests.support.trace_set import trace_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

BEGINNING: Final = 400
"""Characters of the problem that stand before the solution, where not all of it does."""

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
"""Kinds of pairs: copies with their originals; siblings with what they stand beside (the same
problem with another solution, another problem with the same remedy, another problem, the same log);
siblings of one trace; and all others."""

HALVES: Final = ("odd", "even", "held out")


@dataclass(frozen=True)
class Trace:
    """A trace of the test set.

    Attributes:
        id: Its name in the file.
        beside: The trace that it is a duplicate or a sibling of; itself for one of the traces.
        kind: Trace; edited or reworded, for a duplicate; what is confusable, for a sibling.
        held_out: Whether it was written after a rule had been chosen.
    """

    id: str
    beside: str
    kind: str
    title: str
    context: str
    solution: str
    tags: str
    held_out: bool

    @property
    def same(self) -> str:
        """The id of the original trace, for copies."""
        return self.beside if self.kind in {"edited", "reworded"} else self.id

    @cached_property
    def words(self) -> TraceTerms:
        """The words for comparison."""
        return TraceTerms.of(self.title, self.context, self.solution)

    @cached_property
    def counts(self) -> Counter[str]:
        """The term frequencies for search."""
        return Counter(terms(f"{self.title} {self.context} {self.solution} {self.tags}"))


def embedded(trace: Trace) -> str:
    """The recommended text: a model that reads only its beginning gets problem and solution."""
    context = trace.context
    return f"{trace.title} {context[:BEGINNING]} {trace.solution} {context[BEGINNING:]}"


Text = Callable[[Trace], str]
TEXTS: Final[Mapping[str, Sequence[Text]]] = {
    "title, problem": [lambda trace: f"{trace.title} {trace.context}"],
    "title, problem, solution": [lambda trace: f"{trace.title} {trace.context} {trace.solution}"],
    "title, solution, problem": [lambda trace: f"{trace.title} {trace.solution} {trace.context}"],
    f"title, {BEGINNING} of problem, {BEGINNING} of solution": [
        lambda trace: f"{trace.title} {trace.context[:BEGINNING]} {trace.solution[:BEGINNING]}"
    ],
    f"title, {BEGINNING} of problem, solution, rest": [embedded],
    "two vectors, averaged": [
        lambda trace: f"{trace.title} {trace.context}",
        lambda trace: trace.solution,
    ],
}
"""What might be embedded of a trace; more than one text where the mean of vectors is taken."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its vector and answers."""

    text: str
    vector: Array
    answers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two traces and their similarities."""

    one: Trace
    other: Trace
    cosine: float

    @property
    def kind(self) -> str:
        """The kind of the pair: of copy or sibling; else "field"."""
        one, other = self.one, self.other
        if one.same == other.same:
            kinds = {one.kind, other.kind} - {"trace"}
            return kinds.pop() if len(kinds) == 1 and "trace" in {one.kind, other.kind} else ""
        for sibling, beside in ((one, other), (other, one)):
            if sibling.same != sibling.beside and sibling.beside == beside.same:
                return sibling.kind
        return "siblings" if one.beside == other.beside else "field"

    @property
    def half(self) -> str:
        """Odd, even or held out; empty if the two belong to different halves."""
        if self.one.held_out or self.other.held_out:
            return "held out"
        halves = {("even", "odd")[int(trace.beside[1:3]) % 2] for trace in (self.one, self.other)}
        return halves.pop() if len(halves) == 1 else ""


def read(data: Mapping[str, list[dict[str, Any]]]) -> list[Trace]:
    """Return all traces of the test set, with duplicates and siblings."""
    return [
        Trace(
            id=row["id"],
            beside=row.get("of", row.get("near", row["id"])),
            kind=row.get("kind", "trace"),
            title=row["title"],
            context=row["context_text"],
            solution=row["solution_text"],
            tags=" ".join(row["tags"]),
            held_out=row.get("held_out", False),
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


async def vectors_of(traces: Sequence[Trace], texts: Sequence[Text]) -> dict[str, Array]:
    """Return the vector of each trace: the normalized mean over its texts."""
    summed = sum([await embed(map(text, traces)) for text in texts])
    unit = summed / np.linalg.norm(summed, axis=1, keepdims=True)
    return {trace.id: row for trace, row in zip(traces, unit, strict=True)}


def pools(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Return the search pools: traces and siblings; and rewritten traces and siblings."""
    anew = {trace.same: trace for trace in traces if trace.kind == "reworded"}
    originals = [trace for trace in traces if trace.same == trace.id]
    return [originals, [anew.get(trace.id, trace) for trace in originals]]


def words_found(pool: Sequence[Trace], text: str) -> dict[str, float]:
    """Return the BM25 scores of traces that contain a word of the question."""
    entries: dict[str, dict[str, int]] = defaultdict(dict)
    for trace in pool:
        for term, tf in trace.counts.items():
            entries[term][trace.id] = pack(tf, trace.counts.total())
    totals = Totals(len(pool), sum(trace.counts.total() for trace in pool))
    asked = terms(text)
    return score(
        asked, {term: Postings(len(entries[term]), entries[term]) for term in asked}, totals
    )


def ranked(
    pool: Sequence[Trace],
    vectors: Mapping[str, Array],
    question: Question,
    bm25: Mapping[str, float],
) -> tuple[list[str], list[str]]:
    """Return the originals of found traces, best first: by vectors, and by hybrid ranking."""
    same = {trace.id: trace.same for trace in pool}
    near = {trace_id: float(vectors[trace_id] @ question.vector) for trace_id in same}
    both = fuse({trace_id: Scores(near[trace_id], bm25.get(trace_id, 0.0)) for trace_id in same})
    by_meaning = sorted(near, key=lambda trace_id: (-near[trace_id], trace_id))
    return [same[trace_id] for trace_id in by_meaning], [same[trace_id] for trace_id, _ in both]


def ndcg(ranking: Sequence[str], answers: frozenset[str], depth: int = 10) -> float:
    """Normalized discounted cumulative gain; 1 if all answers come first."""
    gains = [1 / np.log2(place + 2) for place in range(depth)]
    gain_sum = sum(
        gain for gain, trace_id in zip(gains, ranking, strict=False) if trace_id in answers
    )
    return float(gain_sum / sum(gains[: len(answers)]))


async def measure_texts(traces: Sequence[Trace], questions: Sequence[Question]) -> None:
    """Print the search quality of each kind of text."""
    searched = pools(traces)
    bm25 = [[words_found(pool, question.text) for question in questions] for pool in searched]
    rows = []
    for name, texts in TEXTS.items():
        vectors = await vectors_of(traces, texts)
        rankings = [
            (question.answers, ranked(pool, vectors, question, scores))
            for pool, of_pool in zip(searched, bm25, strict=True)
            for question, scores in zip(questions, of_pool, strict=True)
        ]
        cells = []
        for leg in (0, 1):
            cells.append(f"{mean(ndcg(legs[leg], answers) for answers, legs in rankings):.3f}")
            cells.append(f"{mean(legs[leg][0] in answers for answers, legs in rankings):.3f}")
        rows.append([name, *cells])
    columns = ["what is embedded", "by meaning: nDCG@10", "first answers"]
    title = f"{len(questions)} questions, {len(searched[0])} traces, by two authors"
    print_table(title, [*columns, "hybrid: nDCG@10", "first answers"], rows)


def spread(values: Iterable[float]) -> str:
    """Return the minimum, the median and the maximum."""
    listed = list(values)
    return f"{min(listed):.2f} {median(listed):.2f} {max(listed):.2f}"


def measure_pairs(pairs: Sequence[Pair]) -> None:
    """Print the similarities of each kind of pair, and the decisions."""
    kinds: dict[str, list[Pair]] = {kind: [] for kind in KINDS}
    for pair in pairs:
        if pair.kind:
            kinds[pair.kind].append(pair)
    compared: Mapping[str, Callable[[Pair], float]] = {
        "cosine": lambda pair: pair.cosine,
        "problems": lambda pair: resemblance(pair.one.words.problem, pair.other.words.problem),
        "solutions": lambda pair: resemblance(pair.one.words.solution, pair.other.words.solution),
        "names": lambda pair: resemblance(pair.one.words.names, pair.other.words.names),
    }
    rows = [
        [kind, str(len(of_kind)), *(spread(map(value, of_kind)) for value in compared.values())]
        for kind, of_kind in kinds.items()
    ]
    title = "Cosine; resemblance of problems, solutions, names in solutions: least median most"
    print_table(title, ["pairs", "", *compared], rows)
    rules: Mapping[str, Callable[[Pair], bool]] = {
        "rule": lambda pair: is_near_duplicate(pair.one.words, pair.other.words),
        "cosine 0.9": lambda pair: pair.cosine >= 0.9,
        "cosine 0.8": lambda pair: pair.cosine >= 0.8,
    }
    columns = [(half, rule) for half in HALVES for rule in rules]
    rows = []
    for kind, of_kind in kinds.items():
        cells = []
        for half, rule in columns:
            judged = [rules[rule](pair) for pair in of_kind if pair.half == half]
            cells.append(f"{sum(judged)} of {len(judged)}")
        rows.append([kind, *cells])
    title = "Called near-duplicates"
    print_table(title, ["pairs", *(f"{half}: {rule}" for half, rule in columns)], rows)


def measure_candidates(traces: Sequence[Trace], vectors: Mapping[str, Array]) -> None:
    """Print how often the nearest candidates include the original of a copy."""
    there = [trace for trace in traces if trace.same == trace.id]
    rows = []
    for kind in ("edited", "reworded"):
        places = []
        for copy in (trace for trace in traces if trace.kind == kind):
            near = {trace.id: float(vectors[trace.id] @ vectors[copy.id]) for trace in there}
            places.append(sum(value > near[copy.same] for value in near.values()))
        depths = (1, MAX_CANDIDATES, 10)
        cells = [f"{sum(place < depth for place in places)}" for depth in depths]
        rows.append([kind, str(len(places)), *cells])
    columns = ["duplicates", "", "nearest", f"nearest {MAX_CANDIDATES}", "nearest 10"]
    print_table("Duplicates whose original is among the nearest, by vector", columns, rows)


async def main() -> None:
    """Run all measurements."""
    data = trace_set()
    traces = read(data)
    asked = await embed(row["query"] for row in data["queries"])
    questions = [
        Question(row["query"], vector, frozenset(row["ids"]))
        for row, vector in zip(data["queries"], asked, strict=True)
    ]
    await measure_texts(traces, questions)
    vectors = await vectors_of(traces, [embedded])
    measure_candidates(traces, vectors)
    pairs = [
        Pair(one, other, float(vectors[one.id] @ vectors[other.id]))
        for one, other in combinations(traces, 2)
    ]
    measure_pairs(pairs)


if __name__ == "__main__":
    asyncio.run(main())

"""How often search is wrong about whether anything matches, on corpora of 64 and 5,183 chunks.

Usage: python -m benchmarks.relevance [--min-similarity X] [--min-weighted-sum X]
           [--coverage-weight X]

The corpora are SciFact's abstracts, eight samples of 64 abstracts, and the project's own sample.
Queries without an answer come from another corpus: SciFact's claims for the project's sample, and
questions about software and other domains (`questions.json`) for SciFact. The queries are divided
into two halves. The constants are tuned on the first half, which has SciFact's training claims. The
second half, with its test claims and questions about other domains, confirms them. The benchmark
takes a minute.

To measure another embedder, replace `LocalEmbedder` and remove the two calls of `Vectors.read`: the
files next to SciFact contain vectors of the local model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.dataset import read_sources
from benchmarks.measurement import print_table
from benchmarks.scifact import (
    ABSTRACTS,
    SCIFACT,
    TRAIN,
    VECTORS,
    read_relevance,
    read_rows,
    require_file,
)
from infra.local.local_database import SAMPLE
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.ai.vector_halves import ENGLISH_DIMENSION
from shared.index.bm25 import Postings, Totals, idf, pack, score
from shared.knowledge.chunk import build_embedding_text
from shared.search.fusion import Scores, fuse
from shared.search.relevance import (
    MINILM,
    Calibration,
    Evidence,
    compute_coverage,
    compute_information,
    measure_evidence,
)
from shared.text.terms import count_terms, find_variants, terms
from tests.support.knowledge import chunk_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

QUESTIONS: Final = json.loads(Path(__file__).with_name("questions.json").read_text("utf-8"))
HALVES: Final = {"tuning": "scifact-train", "confirming": "scifact"}
MODES: Final = ("hybrid", "semantic", "lexical")
DENSE_POOL: Final = 100
LEXICAL_POOL: Final = 30
SMALL_CORPUS_SIZE: Final = 64
SMALL_CORPUS_COUNT: Final = 8
_WORD: Final = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A query with the ids of its answers, if it has any."""

    text: str
    relevant: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search of a corpus came to.

    Attributes:
        evidence: The evidence of the candidates.
        documents: The number of documents of the corpus.
        has_answer: Whether an answer is in the top ten.
    """

    evidence: list[Evidence]
    documents: int
    has_answer: bool

    def matches(self, calibration: Calibration) -> bool:
        """Return whether search would say that something matches."""
        return any(measure_evidence(hit, calibration, self.documents) >= 0 for hit in self.evidence)


class MemoryCorpus:
    """Documents in memory that are searched as `search_kb` does."""

    def __init__(self, texts: Mapping[str, str], vectors: Array) -> None:
        """Index texts, with their vectors in the same order."""
        self.texts = texts
        self._ids = list(texts)
        self._rows = {document: row for row, document in enumerate(self._ids)}
        self._vectors = vectors
        self._term_counts = {document: count_terms(text) for document, text in texts.items()}
        entries: dict[str, dict[str, int]] = defaultdict(dict)
        for document, counts in self._term_counts.items():
            for term, tf in counts.by_term.items():
                entries[term][document] = pack(tf, counts.length)
        self._postings = {term: Postings(len(entry), entry) for term, entry in entries.items()}
        self._totals = Totals(
            len(texts), sum(counts.length for counts in self._term_counts.values())
        )

    def search(self, query: Query, vector: Array) -> dict[str, SearchOutcome]:
        """Search in all three modes, and return the outcome of each."""
        similarities = self._vectors @ vector
        query_terms = terms(query.text)
        query_terms += [term for term in find_variants(query.text) if term in self._postings]
        bm25 = score(query_terms, self._postings, self._totals)
        dense = [self._ids[row] for row in np.argsort(-similarities, kind="stable")[:DENSE_POOL]]
        lexical = sorted(bm25, key=lambda document: (-bm25[document], document))[:LEXICAL_POOL]
        candidates = list(dict.fromkeys([*dense, *lexical]))
        similarity = {
            document: float(similarities[self._rows[document]]) for document in candidates
        }
        information = compute_information(query_terms, self._postings, self._totals)
        term_coverage = {
            document: compute_coverage(information, self._term_counts[document].by_term)
            for document in candidates
        }
        scores = {
            document: Scores(similarity[document], bm25.get(document, 0.0))
            for document in candidates
        }
        hybrid = [document for document, _ in fuse(scores)]
        evidence_by_mode = {
            "hybrid": [
                Evidence(similarity[document], term_coverage[document]) for document in candidates
            ],
            "semantic": [Evidence(similarity[document], None) for document in dense],
            "lexical": [Evidence(None, term_coverage[document]) for document in lexical],
        }
        return {
            mode: SearchOutcome(
                evidence_by_mode[mode],
                len(self.texts),
                has_answer=not query.relevant.isdisjoint(ranking[:10]),
            )
            for mode, ranking in zip(MODES, (hybrid, dense, lexical), strict=True)
        }

    def find_containing(self, words: str) -> frozenset[str]:
        """Return the ids of the documents that contain these words, in this order."""
        return frozenset(document for document, text in self.texts.items() if words in text)

    def shorten(self, text: str) -> str:
        """Return the three most informative words of a text that occur in the corpus."""

        def word_information(word: str) -> float:
            postings_of_word = [
                self._postings[term] for term in terms(word) if term in self._postings
            ]
            return max(
                (idf(postings.df, self._totals.documents) for postings in postings_of_word),
                default=0.0,
            )

        words = _WORD.findall(text)
        best = sorted(range(len(words)), key=lambda index: -word_information(words[index]))[:3]
        return " ".join(words[index] for index in sorted(best))


class Vectors:
    """The English halves of vectors, from the files next to SciFact or from the embedder."""

    def __init__(self) -> None:
        """Start without vectors."""
        self._vectors: dict[str, Array] = {}

    def load(self, texts: Iterable[str], path: Path) -> None:
        """Load the vectors of these texts from a file, which has them in the same order."""
        self._vectors.update(zip(texts, np.load(path), strict=True))

    async def embed(self, texts: Iterable[str]) -> Array:
        """Return the vectors of texts, one per row, and embed only texts without a vector."""
        values = list(texts)
        missing = [text for text in dict.fromkeys(values) if text not in self._vectors]
        embedder = LocalEmbedder()
        vectors = await embedder.embed(missing, Purpose.ENGLISH_QUERY)
        await embedder.aclose()
        whole = np.array(vectors, dtype=np.float32).reshape(-1, embedder.dimension)
        self._vectors.update(zip(missing, whole[:, :ENGLISH_DIMENSION], strict=True))
        return np.stack([self._vectors[text] for text in values])


@dataclass(frozen=True, slots=True)
class Corpora:
    """All corpora; the small ones are disjoint parts of SciFact."""

    scifact: MemoryCorpus
    small: list[MemoryCorpus]
    sample: MemoryCorpus


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries of one kind, each with the corpus to search."""

    name: str
    queries: list[tuple[MemoryCorpus, Query]]


def read_claims(half: str, vectors: Vectors) -> list[Query]:
    """Return SciFact's claims with their answers, and load their vectors."""
    folder = SCIFACT.with_name(HALVES[half])
    relevant = read_relevance(folder)
    claims = read_rows(folder / "queries.jsonl")
    vectors.load((claim["text"] for claim in claims), folder / "minilm-int8.queries.npy")
    return [Query(claim["text"], frozenset(relevant.get(claim["_id"], ()))) for claim in claims]


async def build_corpora(claims: Iterable[Query], vectors: Vectors) -> Corpora:
    """Build all corpora; the small ones consist of abstracts that answer a claim."""
    abstracts = {
        row["_id"]: build_embedding_text(row["title"], row["text"]) for row in read_rows(ABSTRACTS)
    }
    vectors.load(abstracts.values(), VECTORS)
    answers = sorted({document for claim in claims for document in claim.relevant})
    step = len(answers) // SMALL_CORPUS_SIZE
    samples = [answers[start::step][:SMALL_CORPUS_SIZE] for start in range(SMALL_CORPUS_COUNT)]
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in chunk_source(source).chunks]

    async def corpus(texts: dict[str, str]) -> MemoryCorpus:
        return MemoryCorpus(texts, await vectors.embed(texts.values()))

    return Corpora(
        await corpus(abstracts),
        [await corpus({text_id: abstracts[text_id] for text_id in part}) for part in samples],
        await corpus({chunk.chunk_id: chunk.embedding_text for chunk in chunks}),
    )


def pair_with(corpus: MemoryCorpus, queries: Iterable[Query]) -> list[tuple[MemoryCorpus, Query]]:
    """Pair each query with the same corpus."""
    return [(corpus, query) for query in queries]


def contains_answer(corpus: MemoryCorpus, query: Query) -> bool:
    """Return whether a corpus contains an answer to a query."""
    return not query.relevant.isdisjoint(corpus.texts)


def list_answerable(half: str, corpora: Corpora, claims: list[Query]) -> list[QuerySet]:
    """Return the queries that their corpus can answer."""
    titles = [
        Query(row["title"], frozenset({row["_id"]}))
        for row in read_rows(ABSTRACTS)[list(HALVES).index(half) :: 12]
    ]
    shortened = [replace(claim, text=corpora.scifact.shorten(claim.text)) for claim in claims]
    questions = [
        Query(question, corpora.sample.find_containing(answer))
        for question, answer in QUESTIONS["sample"]["answered"][half].items()
    ]
    small = [(corpus, claim) for corpus in corpora.small for claim in claims]
    return [
        QuerySet("SciFact: its claims", pair_with(corpora.scifact, claims)),
        QuerySet("SciFact: three words of a claim", pair_with(corpora.scifact, shortened)),
        QuerySet("SciFact: its titles", pair_with(corpora.scifact, titles)),
        QuerySet("64 of SciFact: their claims", [pair for pair in small if contains_answer(*pair)]),
        QuerySet("sample: its questions", pair_with(corpora.sample, questions)),
    ]


def list_unanswerable(half: str, corpora: Corpora, claims: list[Query]) -> list[QuerySet]:
    """Return the queries that their corpus cannot answer."""
    other_domains = [
        Query(text) for questions in QUESTIONS["elsewhere"][half].values() for text in questions
    ]
    absent = [Query(text) for text in QUESTIONS["sample"]["absent"][half]]
    software = [Query(text) for text in QUESTIONS["sample"]["answered"][half]]
    small = [(corpus, claim) for corpus in corpora.small for claim in claims]
    return [
        QuerySet("SciFact: other domains", pair_with(corpora.scifact, other_domains)),
        QuerySet("SciFact: software", pair_with(corpora.scifact, software + absent)),
        QuerySet(
            "64 of SciFact: other domains",
            [(corpus, query) for corpus in corpora.small for query in other_domains],
        ),
        QuerySet(
            "64 of SciFact: other claims", [pair for pair in small if not contains_answer(*pair)]
        ),
        QuerySet("sample: other domains", pair_with(corpora.sample, other_domains)),
        QuerySet("sample: SciFact's claims", pair_with(corpora.sample, claims)),
        QuerySet("sample: other software", pair_with(corpora.sample, absent)),
    ]


async def search(
    queries: list[tuple[MemoryCorpus, Query]], vectors: Vectors
) -> list[dict[str, SearchOutcome]]:
    """Search for all queries of a set."""
    embedded = await vectors.embed(query.text for _, query in queries)
    return [
        corpus.search(query, row) for (corpus, query), row in zip(queries, embedded, strict=True)
    ]


def compute_false_negatives(
    outcomes_by_mode: list[dict[str, SearchOutcome]], calibration: Calibration
) -> list[str]:
    """Return the false negatives of each mode in percent.

    A mode has two figures: of all queries, and of those with an answer in the top ten.
    """
    cells = []
    for mode in MODES:
        outcomes = [by_mode[mode] for by_mode in outcomes_by_mode]
        answered = [outcome for outcome in outcomes if outcome.has_answer]
        cells += [
            format_percent(not outcome.matches(calibration) for outcome in outcomes),
            format_percent(not outcome.matches(calibration) for outcome in answered),
        ]
    return cells


def compute_false_positives(
    outcomes_by_mode: list[dict[str, SearchOutcome]], calibration: Calibration
) -> list[str]:
    """Return for each mode the percentage of queries for which search reports a match."""
    return [
        format_percent(by_mode[mode].matches(calibration) for by_mode in outcomes_by_mode)
        for mode in MODES
    ]


def format_percent(conditions: Iterable[bool]) -> str:
    """Return the share of true conditions, in percent; "-" if there are none."""
    values = list(conditions)
    return f"{100 * sum(values) / len(values):.1f}" if values else "-"


async def measure(calibration: Calibration) -> None:
    """Print the errors of each mode."""
    vectors = Vectors()
    halves = {half: read_claims(half, vectors) for half in HALVES}
    corpora = await build_corpora(chain.from_iterable(halves.values()), vectors)
    columns_by_mode = [f"{mode}{part}" for mode in MODES for part in ("", ", in top ten")]

    async def print_errors(
        title: str,
        columns: Sequence[str],
        sets: list[QuerySet],
        count_errors: Callable[..., list[str]],
    ) -> None:
        rows = []
        for query_set in sets:
            errors = count_errors(await search(query_set.queries, vectors), calibration)
            rows.append([query_set.name, str(len(query_set.queries)), *errors])
        print_table(f"{title}, % of queries", ["", "queries", *columns], rows)

    for half, claims in halves.items():
        title = f"{half}, false negatives: nothing matches, although an answer exists"
        query_sets = list_answerable(half, corpora, claims)
        await print_errors(title, columns_by_mode, query_sets, compute_false_negatives)
        title = f"{half}, false positives: something matches, although no answer exists"
        query_sets = list_unanswerable(half, corpora, claims)
        await print_errors(title, MODES, query_sets, compute_false_positives)


def main(calibration: Calibration) -> None:
    """Measure, if SciFact is available."""
    require_file(TRAIN)
    asyncio.run(measure(calibration))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("min_similarity", "min_weighted_sum", "coverage_weight"):
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=float, default=getattr(MINILM, name)
        )
    main(Calibration(**vars(parser.parse_args())))

"""How often search misjudges whether anything matches, on bases of 64 and of 5,183 chunks.

Usage: python -m benchmarks.relevance [--similarity X] [--together X] [--words X]

The bases are SciFact's abstracts, eight parts of 64 of them, and the sample. No base answers the
queries for another: SciFact's claims are sent to the sample, questions about software and other
domains (`questions.json`) to SciFact. There are two halves. Constants are tuned on one, with
SciFact's training claims, and confirmed on the other, with its test claims and other domains. It
takes a minute.

For another embedder, replace `LocalEmbedder` and remove the two calls of `Vectors.read`: the files
beside SciFact contain vectors of the local model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.dataset import SCIFACT, read_sources
from benchmarks.measurement import print_table
from infra.local.local_database import SAMPLE
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.index.bm25 import Postings, Totals, idf, pack, score
from shared.knowledge.chunk import embedding_text
from shared.search.fusion import Scores, fuse
from shared.search.relevance import (
    MINILM,
    Calibration,
    Evidence,
    anything_matches,
    coverage,
    term_information,
)
from shared.text.terms import terms
from tests.support.knowledge import with_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

QUESTIONS: Final = json.loads(Path(__file__).with_name("questions.json").read_text("utf-8"))
HALVES: Final = {"tuning": "scifact-train", "confirming": "scifact"}
MODES: Final = ("hybrid", "semantic", "lexical")
DENSE: Final = 100
LEXICAL: Final = 30
SMALL: Final = 64
PARTS: Final = 8
_WORD: Final = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the ids of its answers, if there are any."""

    text: str
    relevant: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a mode: the evidence of its pool, its size, and whether the best ten answer."""

    pool: list[Evidence]
    documents: int
    answered: bool

    def matches(self, calibration: Calibration) -> bool:
        """Return whether the result counts as a match."""
        return anything_matches(self.pool, calibration, self.documents)


class Base:
    """Documents, searched in memory in the same way as by `search_kb`."""

    def __init__(self, texts: Mapping[str, str], vectors: Array) -> None:
        """Index texts; the vectors are in the same order."""
        self.texts = texts
        self._ids = list(texts)
        self._rows = {document: row for row, document in enumerate(self._ids)}
        self._vectors = vectors
        self._held = {document: Counter(terms(text)) for document, text in texts.items()}
        entries: dict[str, dict[str, int]] = defaultdict(dict)
        for document, frequencies in self._held.items():
            for term, tf in frequencies.items():
                entries[term][document] = pack(tf, frequencies.total())
        self._postings = {term: Postings(len(entry), entry) for term, entry in entries.items()}
        self._totals = Totals(
            len(texts), sum(frequencies.total() for frequencies in self._held.values())
        )

    def search(self, query: Query, vector: Array) -> dict[str, Found]:
        """Search in all three modes."""
        similarities = self._vectors @ vector
        asked = terms(query.text)
        bm25 = score(asked, self._postings, self._totals)
        dense = [self._ids[row] for row in np.argsort(-similarities, kind="stable")[:DENSE]]
        lexical = sorted(bm25, key=lambda document: (-bm25[document], document))[:LEXICAL]
        pool = dict.fromkeys([*dense, *lexical])
        near = {document: float(similarities[self._rows[document]]) for document in pool}
        both = {document: Scores(near[document], bm25.get(document, 0.0)) for document in pool}
        information = term_information(asked, self._postings, self._totals)
        covered = {document: coverage(information, self._held[document]) for document in pool}

        def found(best: Sequence[str], evidence: Iterable[Evidence]) -> Found:
            return Found(list(evidence), len(self.texts), not query.relevant.isdisjoint(best[:10]))

        return {
            "hybrid": found(
                [document for document, _ in fuse(both)],
                (Evidence(near[document], covered[document]) for document in pool),
            ),
            "semantic": found(dense, (Evidence(near[document], None) for document in dense)),
            "lexical": found(lexical, (Evidence(None, covered[document]) for document in lexical)),
        }

    def in_brief(self, text: str) -> str:
        """Return the three most informative words of a text that occur in the base."""

        def says(word: str) -> float:
            lists = [self._postings[term] for term in terms(word) if term in self._postings]
            return max(
                (idf(postings.df, self._totals.documents) for postings in lists), default=0.0
            )

        words = _WORD.findall(text)
        best = sorted(range(len(words)), key=lambda place: -says(words[place]))[:3]
        return " ".join(words[place] for place in sorted(best))


class Vectors:
    """Vectors of texts: from the files beside SciFact, or from the embedder."""

    def __init__(self) -> None:
        """Begin without vectors."""
        self._known: dict[str, Array] = {}

    def read(self, texts: Iterable[str], path: Path) -> None:
        """Read the vectors of a file, one for each text."""
        self._known.update(zip(texts, np.load(path), strict=True))

    async def of(self, texts: Iterable[str]) -> Array:
        """Return the vectors of texts, one per row."""
        listed = list(texts)
        new = [text for text in dict.fromkeys(listed) if text not in self._known]
        embedder = LocalEmbedder()
        vectors = await embedder.embed(new, Purpose.QUERY)
        await embedder.aclose()
        self._known.update(zip(new, np.array(vectors, dtype=np.float32), strict=True))
        return np.stack([self._known[text] for text in listed])


@dataclass(frozen=True, slots=True)
class Bases:
    """The bases; the small ones are disjoint parts of SciFact."""

    scifact: Base
    small: list[Base]
    sample: Base


@dataclass(frozen=True, slots=True)
class Set:
    """Queries of one kind, each with its base."""

    name: str
    asked: list[tuple[Base, Query]]


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def read_claims(half: str, vectors: Vectors) -> list[Query]:
    """SciFact's claims with their answers."""
    folder = SCIFACT.with_name(HALVES[half])
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        claim, document, _ = line.split("\t")
        relevant[claim].add(document)
    claims = rows(folder / "queries.jsonl")
    vectors.read((claim["text"] for claim in claims), folder / "minilm-int8.queries.npy")
    return [Query(claim["text"], frozenset(relevant[claim["_id"]])) for claim in claims]


async def build(claims: Iterable[Query], vectors: Vectors) -> Bases:
    """Build the bases; the small ones consist of abstracts that answer a claim."""
    abstracts = {
        row["_id"]: embedding_text(row["title"], row["text"])
        for row in rows(SCIFACT / "corpus.jsonl")
    }
    vectors.read(abstracts.values(), SCIFACT / "minilm-int8.documents.npy")
    judged = sorted({document for claim in claims for document in claim.relevant})
    step = len(judged) // SMALL
    few = [judged[start::step][:SMALL] for start in range(PARTS)]
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in with_chunks(source).chunks]

    async def base(texts: dict[str, str]) -> Base:
        return Base(texts, await vectors.of(texts.values()))

    return Bases(
        await base(abstracts),
        [await base({text_id: abstracts[text_id] for text_id in part}) for part in few],
        await base({chunk.chunk_id: chunk.embedding_text for chunk in chunks}),
    )


def ask(base: Base, queries: Iterable[Query]) -> list[tuple[Base, Query]]:
    """Pair all queries with a base."""
    return [(base, query) for query in queries]


def has(base: Base, query: Query) -> bool:
    """Return whether a base contains an answer to a query."""
    return not query.relevant.isdisjoint(base.texts)


def answerable(half: str, bases: Bases, claims: list[Query]) -> list[Set]:
    """Queries that their base can answer."""
    titles = [
        Query(row["title"], frozenset({row["_id"]}))
        for row in rows(SCIFACT / "corpus.jsonl")[list(HALVES).index(half) :: 12]
    ]
    brief = [replace(claim, text=bases.scifact.in_brief(claim.text)) for claim in claims]
    questions = [
        Query(
            text,
            frozenset(text for text, passage in bases.sample.texts.items() if words in passage),
        )
        for text, words in QUESTIONS["sample"]["answered"][half].items()
    ]
    small = [(part, claim) for part in bases.small for claim in claims]
    return [
        Set("SciFact: its claims", ask(bases.scifact, claims)),
        Set("SciFact: three words of a claim", ask(bases.scifact, brief)),
        Set("SciFact: its titles", ask(bases.scifact, titles)),
        Set("64 of SciFact: their claims", [pair for pair in small if has(*pair)]),
        Set("sample: its questions", ask(bases.sample, questions)),
    ]


def unanswerable(half: str, bases: Bases, claims: list[Query]) -> list[Set]:
    """Queries that their base cannot answer."""
    elsewhere = [Query(text) for topic in QUESTIONS["elsewhere"][half].values() for text in topic]
    absent = [Query(text) for text in QUESTIONS["sample"]["absent"][half]]
    software = [Query(text) for text in QUESTIONS["sample"]["answered"][half]]
    small = [(part, claim) for part in bases.small for claim in claims]
    return [
        Set("SciFact: other domains", ask(bases.scifact, elsewhere)),
        Set("SciFact: software", ask(bases.scifact, software + absent)),
        Set(
            "64 of SciFact: other domains",
            [(part, query) for part in bases.small for query in elsewhere],
        ),
        Set("64 of SciFact: other claims", [pair for pair in small if not has(*pair)]),
        Set("sample: other domains", ask(bases.sample, elsewhere)),
        Set("sample: SciFact's claims", ask(bases.sample, claims)),
        Set("sample: other software", ask(bases.sample, absent)),
    ]


async def search(asked: list[tuple[Base, Query]], vectors: Vectors) -> list[dict[str, Found]]:
    """Search for all queries of a set."""
    embedded = await vectors.of(query.text for _, query in asked)
    return [base.search(query, row) for (base, query), row in zip(asked, embedded, strict=True)]


def false_alarms(evidences: list[dict[str, Found]], calibration: Calibration) -> list[str]:
    """The false alarms of each mode: among all queries, and among those with an answer found."""
    cells = []
    for mode in MODES:
        outcomes = [
            (not evidence[mode].matches(calibration), evidence[mode].answered)
            for evidence in evidences
        ]
        cells += [
            percent(wrong for wrong, _ in outcomes),
            percent(bad for bad, in_ten in outcomes if in_ten),
        ]
    return cells


def misses(evidences: list[dict[str, Found]], calibration: Calibration) -> list[str]:
    """Return the share of false matches of each mode."""
    return [
        percent(evidence[mode].matches(calibration) for evidence in evidences) for mode in MODES
    ]


def percent(wrong: Iterable[bool]) -> str:
    """Return the share that is true, in percent."""
    listed = list(wrong)
    return f"{100 * sum(listed) / len(listed):.1f}" if listed else "-"


async def measure(calibration: Calibration) -> None:
    """Print the errors of each mode."""
    vectors = Vectors()
    halves = {half: read_claims(half, vectors) for half in HALVES}
    bases = await build(chain.from_iterable(halves.values()), vectors)
    twice = [f"{mode}{part}" for mode in MODES for part in ("", ", in ten")]

    async def table(
        title: str, columns: Sequence[str], sets: list[Set], judge: Callable[..., list[str]]
    ) -> None:
        outcomes = [
            [
                query_set.name,
                str(len(query_set.asked)),
                *judge(await search(query_set.asked, vectors), calibration),
            ]
            for query_set in sets
        ]
        print_table(f"{title}, % of queries", ["", "queries", *columns], outcomes)

    for half, claims in halves.items():
        title = f"{half}: nothing is said to match, though something does"
        await table(title, twice, answerable(half, bases, claims), false_alarms)
        title = f"{half}: something is taken for a match, though nothing is one"
        await table(title, MODES, unanswerable(half, bases, claims), misses)


def main(calibration: Calibration) -> None:
    """Measure, if SciFact is available."""
    if not SCIFACT.with_name("scifact-train").is_dir():
        print(f"Skipped: there is no SciFact in {SCIFACT.parent}.")  # noqa: T201 - a benchmark prints
        return
    asyncio.run(measure(calibration))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("similarity", "together", "words"):
        parser.add_argument(f"--{name}", type=float, default=getattr(MINILM, name))
    main(Calibration(**vars(parser.parse_args())))

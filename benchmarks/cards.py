"""The share of an expert's claim that is in the sentences selected from its abstract.

Usage: python -m benchmarks.cards

Experts wrote each of SciFact's claims from an abstract, so the sentence that overlaps most with a
claim is important. Three sentences are selected from each abstract with a claim. `claim` is the
share of the claim's terms in these sentences, among those in the abstract, weighted by inverse
document frequency. `sentence` is how often the sentence with the largest overlap is selected. The
weights were tuned on the training half and are confirmed on the other. The benchmark also measures
cards per second on one core, with the sample.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.dataset import SCIFACT, read_sources
from benchmarks.measurement import print_table
from benchmarks.relevance import HALVES, rows
from functions.jobs.cards.extractive import extractive_card
from infra.local.local_database import SAMPLE
from shared.index.bm25 import idf
from shared.text.key_sentences import key_sentences
from shared.text.sentences import sentences
from shared.text.terms import terms
from tests.support.knowledge import with_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Choose = Callable[[str, str], Sequence[str]]
    """Selects sentences of a text with a title."""

CHOSEN: Final = 3
ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A claim, and its abstract."""

    claim: str
    title: str
    text: str


def first(text: str, _title: str) -> Sequence[str]:
    """Select the first sentences."""
    return sentences(text)[:CHOSEN]


def last(text: str, _title: str) -> Sequence[str]:
    """Select the last sentences: abstracts often end with a conclusion."""
    return sentences(text)[-CHOSEN:]


def any_(text: str, _title: str) -> Sequence[str]:
    """Select random sentences, the same in each run."""
    all_sentences = sentences(text)
    return random.Random(text).sample(all_sentences, min(CHOSEN, len(all_sentences)))  # noqa: S311 - no secret


def longest(text: str, _title: str) -> Sequence[str]:
    """Select the longest sentences."""
    return sorted(sentences(text), key=len, reverse=True)[:CHOSEN]


def key(text: str, title: str) -> Sequence[str]:
    """Select the sentences of a knowledge card."""
    return [sentence.text for sentence in key_sentences(text, title)[:CHOSEN]]


WAYS: Final[dict[str, Choose]] = {
    "first three": first,
    "last three": last,
    "by lot": any_,
    "longest three": longest,
    "key sentences": key,
}


def cases(half: str) -> list[Case]:
    """Return the claims of a half with their abstracts."""
    corpus = {row["_id"]: row for row in rows(SCIFACT / "corpus.jsonl")}
    folder = SCIFACT.with_name(HALVES[half])
    claims = {row["_id"]: row["text"] for row in rows(folder / "queries.jsonl")}
    judged = [
        line.split("\t") for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]
    ]
    return [
        Case(claims[claim], corpus[name]["title"], corpus[name]["text"])
        for claim, name, _ in judged
    ]


def rarity() -> Mapping[str, float]:
    """Return the inverse document frequency of each term of the abstracts."""
    abstracts = rows(SCIFACT / "corpus.jsonl")
    frequencies = Counter(term for row in abstracts for term in set(terms(row["text"])))
    return {term: idf(count, len(abstracts)) for term, count in frequencies.items()}


def measure(choose: Choose, asked: Sequence[Case], says: Mapping[str, float]) -> list[str]:
    """Return the mean `claim`, and the share of `sentence`."""
    shares: list[float] = []
    hits: list[bool] = []
    for case in asked:
        expected = set(terms(case.claim)) & set(terms(case.text))
        if not expected:
            continue

        def claim_overlap(text: str, expected: set[str] = expected) -> float:
            return sum(says.get(term, 0.0) for term in expected & set(terms(text)))

        chosen = choose(case.text, case.title)
        shares.append(claim_overlap(" ".join(chosen)) / claim_overlap(case.text))
        hits.append(max(sentences(case.text), key=claim_overlap) in chosen)
    return [f"{sum(shares) / len(shares):.3f}", f"{sum(hits) / len(hits):.3f}"]


def quality() -> None:
    """Print the results of all methods."""
    says = rarity()
    table: defaultdict[str, list[str]] = defaultdict(list)
    for half in HALVES:
        asked = cases(half)
        for name, choose in WAYS.items():
            table[name] += measure(choose, asked, says)
    columns = ["", *(f"{half}: {what}" for half in HALVES for what in ("claim", "sentence"))]
    print_table("Of abstracts, three sentences", columns, [[k, *v] for k, v in table.items()])


def speed() -> None:
    """Print the number of cards per second."""
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in with_chunks(source).chunks]
    began = time.perf_counter()
    for _ in range(ROUNDS):
        for chunk in chunks:
            extractive_card(chunk.content, chunk.title)
    seconds = (time.perf_counter() - began) / ROUNDS / len(chunks)
    print_table("Cards", ["", "a second"], [["the sample", f"{1 / seconds:.0f}"]])


async def main() -> None:
    """Measure, if SciFact is available."""
    if SCIFACT.with_name("scifact-train").is_dir():
        quality()
    else:
        print(f"Skipped: there is no SciFact in {SCIFACT.parent}.")  # noqa: T201 - a benchmark prints
    speed()


if __name__ == "__main__":
    asyncio.run(main())

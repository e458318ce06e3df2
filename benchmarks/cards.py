"""The quality and speed of extractive knowledge cards.

Usage: python -m benchmarks.cards

Experts wrote each claim of SciFact from an abstract, so the sentence that overlaps most with the
claim is important. Three sentences are selected from each abstract. `claim` is the share of the
claim's terms in the abstract that the selected sentences contain, weighted by inverse document
frequency. `sentence` is the share of abstracts whose sentence with the largest overlap is selected.
The weights of `key_sentences` were tuned on the training half and are confirmed on the other half.
The benchmark also measures the cards made per second on one core, from the sample.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.dataset import read_sources
from benchmarks.measurement import print_table
from benchmarks.relevance import HALVES
from benchmarks.scifact import ABSTRACTS, SCIFACT, TRAIN, read_relevance, read_rows
from functions.jobs.cards.extractive import make_extractive_card
from infra.local.local_database import SAMPLE
from shared.index.bm25 import idf
from shared.text.key_sentences import rank_sentences
from shared.text.sentences import split_sentences
from shared.text.terms import terms
from tests.support.knowledge import chunk_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    SelectSentences = Callable[[str, str], Sequence[str]]
    """A function that selects sentences of a text with a title."""

SENTENCE_COUNT: Final = 3
ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A claim and the abstract that it was written from."""

    claim: str
    title: str
    text: str


def select_first_sentences(text: str, _title: str) -> Sequence[str]:
    """Select the first sentences."""
    return split_sentences(text)[:SENTENCE_COUNT]


def select_last_sentences(text: str, _title: str) -> Sequence[str]:
    """Select the last sentences: abstracts often end with a conclusion."""
    return split_sentences(text)[-SENTENCE_COUNT:]


def select_random_sentences(text: str, _title: str) -> Sequence[str]:
    """Select random sentences, the same in each run."""
    all_sentences = split_sentences(text)
    return random.Random(text).sample(all_sentences, min(SENTENCE_COUNT, len(all_sentences)))  # noqa: S311 - no secret


def select_longest_sentences(text: str, _title: str) -> Sequence[str]:
    """Select the longest sentences."""
    return sorted(split_sentences(text), key=len, reverse=True)[:SENTENCE_COUNT]


def select_card_sentences(text: str, title: str) -> Sequence[str]:
    """Select the sentences of a knowledge card."""
    return [sentence.text for sentence in rank_sentences(text, title)[:SENTENCE_COUNT]]


METHODS: Final[dict[str, SelectSentences]] = {
    "first three": select_first_sentences,
    "last three": select_last_sentences,
    "random three": select_random_sentences,
    "longest three": select_longest_sentences,
    "key sentences": select_card_sentences,
}


def read_cases(half: str) -> list[Case]:
    """Return the claims of a half with their abstracts."""
    corpus = {row["_id"]: row for row in read_rows(ABSTRACTS)}
    folder = SCIFACT.with_name(HALVES[half])
    claims = {row["_id"]: row["text"] for row in read_rows(folder / "queries.jsonl")}
    return [
        Case(claims[claim], corpus[name]["title"], corpus[name]["text"])
        for claim, names in read_relevance(folder).items()
        for name in names
    ]


def compute_inverse_document_frequencies() -> Mapping[str, float]:
    """Return the inverse document frequency of each term of the abstracts."""
    abstracts = read_rows(ABSTRACTS)
    frequencies = Counter(term for row in abstracts for term in set(terms(row["text"])))
    return {term: idf(count, len(abstracts)) for term, count in frequencies.items()}


def measure(
    select: SelectSentences, cases_of_half: Sequence[Case], weights: Mapping[str, float]
) -> list[str]:
    """Return the means of `claim` and of `sentence` over the cases, formatted."""
    shares: list[float] = []
    hits: list[bool] = []
    for case in cases_of_half:
        claim_terms = set(terms(case.claim)) & set(terms(case.text))
        if not claim_terms:
            continue

        def claim_overlap(text: str, claim_terms: set[str] = claim_terms) -> float:
            return sum(weights.get(term, 0.0) for term in claim_terms & set(terms(text)))

        selected = select(case.text, case.title)
        shares.append(claim_overlap(" ".join(selected)) / claim_overlap(case.text))
        hits.append(max(split_sentences(case.text), key=claim_overlap) in selected)
    return [f"{sum(shares) / len(shares):.3f}", f"{sum(hits) / len(hits):.3f}"]


def print_quality() -> None:
    """Print the quality of all methods, on both halves."""
    weights = compute_inverse_document_frequencies()
    cells_by_method: defaultdict[str, list[str]] = defaultdict(list)
    for half in HALVES:
        cases_of_half = read_cases(half)
        for name, select in METHODS.items():
            cells_by_method[name] += measure(select, cases_of_half, weights)
    columns = ["", *(f"{half}: {score}" for half in HALVES for score in ("claim", "sentence"))]
    rows_by_method = [[name, *cells] for name, cells in cells_by_method.items()]
    print_table("Three sentences of an abstract", columns, rows_by_method)


def print_speed() -> None:
    """Print the number of cards made per second."""
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in chunk_source(source).chunks]
    started = time.perf_counter()
    for _ in range(ROUNDS):
        for chunk in chunks:
            make_extractive_card(chunk.content, chunk.title)
    seconds = (time.perf_counter() - started) / ROUNDS / len(chunks)
    print_table("Cards", ["", "a second"], [["the sample", f"{1 / seconds:.0f}"]])


def main() -> None:
    """Measure the quality, if SciFact is available, and the speed."""
    if TRAIN.is_dir():
        print_quality()
    else:
        print(f"Skipped: there is no SciFact in {SCIFACT.parent}.")
    print_speed()


if __name__ == "__main__":
    main()

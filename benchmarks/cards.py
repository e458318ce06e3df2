"""How much of what experts say a text says stands in the sentences that are chosen of it.

Usage: python -m benchmarks.cards

SciFact's claims were written by experts, each from an abstract: so the sentence that says most of a
claim is one that mattered to somebody. Three sentences are chosen of each abstract that a claim
rests on. `claim` is the share of the claim's terms that stand in them, of those that stand in the
abstract at all, a term counting more the fewer abstracts hold it; `sentence` is how often the
sentence that says most of the claim is one of the three. Weights were chosen on the training half;
the other only tells whether they hold. Then come the cards a second of one core, of the sample.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.base import SCIFACT, read_sources
from benchmarks.measuring import print_table
from benchmarks.relevance import HALVES, rows
from functions.jobs.cards.extractive import extractive_card
from infra.local.local_database import SAMPLE
from shared.index.bm25 import idf
from shared.text.key_sentences import key_sentences
from shared.text.sentences import sentences
from shared.text.terms import terms
from tests.support.knowledge import in_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Choose = Callable[[str, str], Sequence[str]]
    """Chooses sentences of a text with a title."""

CHOSEN: Final = 3
ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A claim, and the abstract that it rests on."""

    claim: str
    title: str
    text: str


def first(text: str, _title: str) -> Sequence[str]:
    """How an abstract begins."""
    return sentences(text)[:CHOSEN]


def last(text: str, _title: str) -> Sequence[str]:
    """How it ends: abstracts often end in a conclusion."""
    return sentences(text)[-CHOSEN:]


def any_(text: str, _title: str) -> Sequence[str]:
    """Sentences drawn by lot, always the same ones."""
    found = sentences(text)
    return random.Random(text).sample(found, min(CHOSEN, len(found)))  # noqa: S311 - no secret


def longest(text: str, _title: str) -> Sequence[str]:
    """The longest: they hold the most words."""
    return sorted(sentences(text), key=len, reverse=True)[:CHOSEN]


def key(text: str, title: str) -> Sequence[str]:
    """Those that a card is made of."""
    return [sentence.text for sentence in key_sentences(text, title)[:CHOSEN]]


WAYS: Final[dict[str, Choose]] = {
    "first three": first,
    "last three": last,
    "by lot": any_,
    "longest three": longest,
    "key sentences": key,
}


def cases(half: str) -> list[Case]:
    """The claims of a half with the abstracts that they rest on."""
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
    """How much each term of the abstracts says."""
    abstracts = rows(SCIFACT / "corpus.jsonl")
    held = Counter(term for row in abstracts for term in set(terms(row["text"])))
    return {term: idf(count, len(abstracts)) for term, count in held.items()}


def measure(choose: Choose, asked: Sequence[Case], says: Mapping[str, float]) -> list[str]:
    """The mean share of the claims, and how often the best sentence is chosen."""
    shares: list[float] = []
    hits: list[bool] = []
    for case in asked:
        wanted = set(terms(case.claim)) & set(terms(case.text))
        if not wanted:
            continue

        def said(text: str, wanted: set[str] = wanted) -> float:
            return sum(says.get(term, 0.0) for term in wanted & set(terms(text)))

        chosen = choose(case.text, case.title)
        shares.append(said(" ".join(chosen)) / said(case.text))
        hits.append(max(sentences(case.text), key=said) in chosen)
    return [f"{sum(shares) / len(shares):.3f}", f"{sum(hits) / len(hits):.3f}"]


def quality() -> None:
    """Print how the ways to choose compare."""
    says = rarity()
    table: defaultdict[str, list[str]] = defaultdict(list)
    for half in HALVES:
        asked = cases(half)
        for name, choose in WAYS.items():
            table[name] += measure(choose, asked, says)
    columns = ["", *(f"{half}: {what}" for half in HALVES for what in ("claim", "sentence"))]
    print_table("Of abstracts, three sentences", columns, [[k, *v] for k, v in table.items()])


def speed() -> None:
    """Print how many cards are made in a second."""
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in in_chunks(source).chunks]
    began = time.perf_counter()
    for _ in range(ROUNDS):
        for chunk in chunks:
            extractive_card(chunk.content, chunk.title)
    seconds = (time.perf_counter() - began) / ROUNDS / len(chunks)
    print_table("Cards", ["", "a second"], [["the sample", f"{1 / seconds:.0f}"]])


async def main() -> None:
    """Measure, where SciFact is at hand."""
    if SCIFACT.with_name("scifact-train").is_dir():
        quality()
    else:
        print(f"Skipped: there is no SciFact in {SCIFACT.parent}.")  # noqa: T201 - a benchmark prints
    speed()


if __name__ == "__main__":
    asyncio.run(main())

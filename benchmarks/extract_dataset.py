"""Cases for `extract_key_info`, made of SciFact's abstracts and claims.

A case is a claim and twenty abstracts, each a paragraph that begins with its title: one is relevant
to the claim, nineteen are not. The others are random or, which is harder, the nearest to the
relevant one by SciFact's vectors. Their order is random.
"""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.dataset import SCIFACT
from shared.text.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TRAIN: Final = SCIFACT.with_name("scifact-train")
DISTRACTOR_COUNT: Final = 19
SEPARATOR: Final = "\n\n"


class Distractors(StrEnum):
    """The irrelevant abstracts of a case."""

    CHANCE = "any nineteen others"
    NEAREST = "the nineteen nearest"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and materials with the answer.

    Attributes:
        query: A claim.
        materials: Twenty abstracts.
        right: Where the relevant one stands in them.
    """

    query: str
    materials: str
    right: Span

    def rank(self, starts: Sequence[int]) -> int | None:
        """The rank, from 1, of the first passage of the relevant abstract; None if not found.

        Args:
            starts: Where each passage starts in the materials, the best first.
        """
        ranks = (n for n, at in enumerate(starts, 1) if self.right.start <= at < self.right.end)
        return next(ranks, None)


def cases(folder: Path, beside: Distractors) -> list[Case]:
    """Return a case for each claim with a relevant abstract, the same in each run."""
    chance = random.Random(beside.value)  # noqa: S311 - no secret
    abstracts = _rows(SCIFACT / "corpus.jsonl")
    rows = {row["_id"]: number for number, row in enumerate(abstracts)}
    texts = [paragraph(row) for row in abstracts]
    nearest = _NearestAbstracts()
    relevant = _relevant(folder / "qrels.tsv")
    result: list[Case] = []
    for claim in _rows(folder / "queries.jsonl"):
        answers = [rows[name] for name in relevant.get(claim["_id"], ())]
        if answers:
            right = chance.choice(answers)
            every = (
                nearest.to(right) if beside is Distractors.NEAREST else _shuffled(len(rows), chance)
            )
            others = [number for number in every if number not in answers][:DISTRACTOR_COUNT]
            result.append(_case(claim["text"], right, others, texts, chance))
    return result


def materials_of(characters: int) -> str:
    """Different abstracts, cut at this total length."""
    texts: list[str] = []
    length = 0
    for row in _rows(SCIFACT / "corpus.jsonl"):
        texts.append(paragraph(row))
        length += len(texts[-1]) + len(SEPARATOR)
        if length > characters:
            break
    return SEPARATOR.join(texts)[:characters]


def claims() -> Iterator[str]:
    """Yield claims, independent of any materials."""
    return (row["text"] for row in _rows(SCIFACT / "queries.jsonl"))


def paragraph(row: dict[str, Any]) -> str:
    """Return an abstract with its title first."""
    return f"{row['title']}\n{row['text']}"


class _NearestAbstracts:
    def __init__(self) -> None:
        self._vectors = np.load(SCIFACT / "minilm-int8.documents.npy")

    def to(self, number: int) -> list[int]:
        """Return all other abstracts, nearest first."""
        order: list[int] = np.argsort(-(self._vectors @ self._vectors[number])).tolist()
        return [other for other in order if other != number]


def _case(
    query: str, right: int, others: Sequence[int], texts: Sequence[str], chance: random.Random
) -> Case:
    order = [right, *others]
    chance.shuffle(order)
    before = order[: order.index(right)]
    start = sum(len(texts[number]) + len(SEPARATOR) for number in before)
    span = Span(start, start + len(texts[right]))
    return Case(query, SEPARATOR.join(texts[number] for number in order), span)


def _shuffled(count: int, chance: random.Random) -> list[int]:
    return chance.sample(range(count), count)


def _relevant(path: Path) -> dict[str, list[str]]:
    relevant: dict[str, list[str]] = {}
    with path.open(encoding="utf-8") as rows:
        for claim, abstract, gain in csv.reader(rows, delimiter="\t"):
            if gain.isdigit() and int(gain) > 0:
                relevant.setdefault(claim, []).append(abstract)
    return relevant


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

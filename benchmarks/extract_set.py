"""Materials made of SciFact's abstracts, and the claims that one of these answers.

A case is a claim and twenty abstracts, each a paragraph whose first line is its title: one that is
relevant to the claim and nineteen that are not. These are taken by chance, or, which is harder, are
the nearest to the relevant one by the vectors that lie beside SciFact. Their order is chance's.
"""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.base import SCIFACT
from shared.text.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TRAIN: Final = SCIFACT.with_name("scifact-train")
OTHERS: Final = 19
BETWEEN: Final = "\n\n"


class Beside(StrEnum):
    """What stands beside the abstract that answers."""

    CHANCE = "any nineteen others"
    NEAREST = "the nineteen nearest"


@dataclass(frozen=True, slots=True)
class Case:
    """A question, and materials that hold the answer.

    Attributes:
        query: A claim.
        materials: Twenty abstracts.
        right: Where the relevant one stands in them.
    """

    query: str
    materials: str
    right: Span

    def rank(self, starts: Sequence[int]) -> int | None:
        """The rank, from 1, of the first passage of the right abstract; None: it was not found.

        Args:
            starts: Where each passage starts in the materials, the best first.
        """
        found = (n for n, at in enumerate(starts, 1) if self.right.start <= at < self.right.end)
        return next(found, None)


def cases(folder: Path, beside: Beside) -> list[Case]:
    """A case for each claim that has a relevant abstract; every time the same."""
    chance = random.Random(beside.value)  # noqa: S311 - no secret
    abstracts = _rows(SCIFACT / "corpus.jsonl")
    rows = {row["_id"]: number for number, row in enumerate(abstracts)}
    texts = [paragraph(row) for row in abstracts]
    nearest = _Nearest()
    relevant = _relevant(folder / "qrels.tsv")
    found: list[Case] = []
    for claim in _rows(folder / "queries.jsonl"):
        answers = [rows[name] for name in relevant.get(claim["_id"], ())]
        if answers:
            right = chance.choice(answers)
            every = nearest.to(right) if beside is Beside.NEAREST else _shuffled(len(rows), chance)
            others = [number for number in every if number not in answers][:OTHERS]
            found.append(_case(claim["text"], right, others, texts, chance))
    return found


def materials_of(characters: int) -> str:
    """As many different abstracts as it takes, cut at this length."""
    texts: list[str] = []
    length = 0
    for row in _rows(SCIFACT / "corpus.jsonl"):
        texts.append(paragraph(row))
        length += len(texts[-1]) + len(BETWEEN)
        if length > characters:
            break
    return BETWEEN.join(texts)[:characters]


def claims() -> Iterator[str]:
    """Questions that have nothing to do with any materials in particular."""
    return (row["text"] for row in _rows(SCIFACT / "queries.jsonl"))


def paragraph(row: dict[str, Any]) -> str:
    """An abstract, its title in front."""
    return f"{row['title']}\n{row['text']}"


class _Nearest:
    def __init__(self) -> None:
        self._vectors = np.load(SCIFACT / "minilm-int8.documents.npy")

    def to(self, number: int) -> list[int]:
        """All abstracts but this one, those nearest to it first."""
        order: list[int] = np.argsort(-(self._vectors @ self._vectors[number])).tolist()
        return [each for each in order if each != number]


def _case(
    query: str, right: int, others: Sequence[int], texts: Sequence[str], chance: random.Random
) -> Case:
    order = [right, *others]
    chance.shuffle(order)
    before = order[: order.index(right)]
    start = sum(len(texts[number]) + len(BETWEEN) for number in before)
    span = Span(start, start + len(texts[right]))
    return Case(query, BETWEEN.join(texts[number] for number in order), span)


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

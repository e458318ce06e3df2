"""Cases for `extract_key_info`, made of SciFact's abstracts and claims.

A case is a claim and twenty abstracts in random order, one of them relevant to the claim. The other
nineteen are chosen at random, or are the nearest to the relevant one by SciFact's vectors, which is
harder. Each abstract is a paragraph that begins with its title.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.scifact import ABSTRACTS, SCIFACT, VECTORS, read_relevance, read_rows
from shared.text.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DISTRACTOR_COUNT: Final = 19
SEPARATOR: Final = "\n\n"


class Distractors(StrEnum):
    """The irrelevant abstracts of a case."""

    CHANCE = "any nineteen others"
    NEAREST = "the nineteen nearest"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and materials that contain the answer.

    Attributes:
        query: A claim.
        materials: Twenty abstracts.
        relevant: The span of the relevant abstract in the materials.
    """

    query: str
    materials: str
    relevant: Span

    def rank(self, starts: Sequence[int]) -> int | None:
        """Return the rank, from 1, of the relevant abstract's first passage; None if not found.

        Args:
            starts: The start positions of the passages in the materials, best first.
        """
        ranks = (
            rank
            for rank, start in enumerate(starts, 1)
            if self.relevant.start <= start < self.relevant.end
        )
        return next(ranks, None)


def make_cases(folder: Path, distractors: Distractors) -> list[Case]:
    """Return a case for each claim with a relevant abstract, the same in each run."""
    generator = random.Random(distractors.value)  # noqa: S311 - no secret
    abstracts = read_rows(ABSTRACTS)
    positions = {row["_id"]: position for position, row in enumerate(abstracts)}
    texts = [format_paragraph(row) for row in abstracts]
    nearest = _NearestAbstracts()
    relevant_by_claim = read_relevance(folder)
    result: list[Case] = []
    for claim in read_rows(folder / "queries.jsonl"):
        answers = [positions[abstract] for abstract in relevant_by_claim.get(claim["_id"], ())]
        if answers:
            relevant = generator.choice(answers)
            candidates = (
                nearest.others(relevant)
                if distractors is Distractors.NEAREST
                else _shuffle(len(abstracts), generator)
            )
            irrelevant = [position for position in candidates if position not in answers]
            others = irrelevant[:DISTRACTOR_COUNT]
            result.append(_make_case(claim["text"], relevant, others, texts, generator))
    return result


def make_materials(characters: int) -> str:
    """Join different abstracts, and cut the text at this length."""
    texts: list[str] = []
    length = 0
    for row in read_rows(ABSTRACTS):
        texts.append(format_paragraph(row))
        length += len(texts[-1]) + len(SEPARATOR)
        if length > characters:
            break
    return SEPARATOR.join(texts)[:characters]


def iterate_claims() -> Iterator[str]:
    """Yield SciFact's claims, each of which is a query."""
    return (row["text"] for row in read_rows(SCIFACT / "queries.jsonl"))


def format_paragraph(row: dict[str, Any]) -> str:
    """Return an abstract with its title first."""
    return f"{row['title']}\n{row['text']}"


class _NearestAbstracts:
    def __init__(self) -> None:
        self._vectors = np.load(VECTORS)

    def others(self, position: int) -> list[int]:
        """Return the positions of all other abstracts, nearest first."""
        order: list[int] = np.argsort(-(self._vectors @ self._vectors[position])).tolist()
        return [other for other in order if other != position]


def _make_case(
    query: str, relevant: int, others: Sequence[int], texts: Sequence[str], generator: random.Random
) -> Case:
    order = [relevant, *others]
    generator.shuffle(order)
    before = order[: order.index(relevant)]
    start = sum(len(texts[position]) + len(SEPARATOR) for position in before)
    span = Span(start, start + len(texts[relevant]))
    return Case(query, SEPARATOR.join(texts[position] for position in order), span)


def _shuffle(count: int, generator: random.Random) -> list[int]:
    return generator.sample(range(count), count)

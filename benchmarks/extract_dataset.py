"""Cases for `extract_key_info`, made of SciFact's abstracts and claims.

A case is a claim and twenty abstracts in random order, one of them relevant to the claim. The other
nineteen, its distractors, are chosen at random, or are the nearest to the relevant one by SciFact's
vectors, which is harder. Each abstract is a paragraph that begins with its title.
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
    """How the irrelevant abstracts of a case are chosen.

    The values are the labels of the results. They also seed the random choices, so changing one
    changes all its cases.
    """

    RANDOM = "any nineteen others"
    NEAREST = "the nineteen nearest"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and materials that contain the answer.

    Attributes:
        query: A claim.
        materials: Twenty abstracts.
        relevant_span: The span of the relevant abstract in the materials.
    """

    query: str
    materials: str
    relevant_span: Span

    def rank(self, starts: Sequence[int]) -> int | None:
        """Return the rank, from 1, of the best passage that is in the relevant abstract.

        Args:
            starts: The start positions of the passages in the materials, best first.

        Returns:
            The rank, or None if no passage is in the relevant abstract.
        """
        span = self.relevant_span
        ranks = (rank for rank, start in enumerate(starts, 1) if span.start <= start < span.end)
        return next(ranks, None)


def make_cases(folder: Path, distractors: Distractors) -> list[Case]:
    """Return a case for each claim with a relevant abstract, the same in each run."""
    rng = random.Random(distractors.value)  # noqa: S311 - no secret
    abstracts = read_rows(ABSTRACTS)
    positions = {row["_id"]: position for position, row in enumerate(abstracts)}
    texts = [format_paragraph(row) for row in abstracts]
    nearest = _NearestAbstracts()
    answers_by_claim = read_relevance(folder)
    cases: list[Case] = []
    for claim in read_rows(folder / "queries.jsonl"):
        answers = [positions[abstract] for abstract in answers_by_claim.get(claim["_id"], ())]
        if not answers:
            continue
        # Each case contains one answer only, so that all ranks have the same meaning.
        answer = rng.choice(answers)
        candidates = (
            nearest.find_others(answer)
            if distractors is Distractors.NEAREST
            else _shuffle_positions(len(abstracts), rng)
        )
        irrelevant = [position for position in candidates if position not in answers]
        case = _make_case(claim["text"], answer, irrelevant[:DISTRACTOR_COUNT], texts, rng)
        cases.append(case)
    return cases


def make_materials(characters: int) -> str:
    """Join abstracts to a text of this length, in characters. The last one may be cut."""
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
    """The abstracts that are close in meaning to another one, by SciFact's vectors."""

    def __init__(self) -> None:
        self._vectors = np.load(VECTORS)

    def find_others(self, position: int) -> list[int]:
        """Return the positions of all other abstracts, nearest first."""
        order: list[int] = np.argsort(-(self._vectors @ self._vectors[position])).tolist()
        return [other for other in order if other != position]


def _make_case(
    query: str, answer: int, distractors: Sequence[int], texts: Sequence[str], rng: random.Random
) -> Case:
    """Make a case of abstracts, which are given by their positions in `texts`."""
    order = [answer, *distractors]
    rng.shuffle(order)
    texts_before = [texts[position] for position in order[: order.index(answer)]]
    start = sum(len(text) + len(SEPARATOR) for text in texts_before)
    relevant_span = Span(start, start + len(texts[answer]))
    return Case(query, SEPARATOR.join(texts[position] for position in order), relevant_span)


def _shuffle_positions(count: int, rng: random.Random) -> list[int]:
    return rng.sample(range(count), count)

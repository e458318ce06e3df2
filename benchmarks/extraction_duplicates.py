"""Which extractions say the same, on the sample's and on pairs around them.

Usage: python -m benchmarks.extraction_duplicates

`extraction_pairs.json` holds extractions of the sample told anew in other words, and others made to
be confused with one of them: the same question answered otherwise, the same remedy for another
matter, the same steps to another end. All pairs of the sample that are of one type are compared
too. It takes half a minute.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measuring import print_table
from infra.local.sample.extractions import SampleExtractions
from infra.local.sample.knowledge import FOLDER
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import answer_resemblance, min_similarity
from shared.extractions.model import CONTENTS, Content, ExtractionType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infra.local.sample.extractions import SampleExtraction

PAIRS: Final = Path(__file__).with_name("extraction_pairs.json")
SIMILARITIES: Final = (0.7, 0.75, 0.8, 0.85, 0.9)
RESEMBLANCES: Final = (0.0, 0.15, 0.2, 0.25, 0.3, 0.35)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two extractions of a type: how close their vectors are, and how much their answers share."""

    similarity: float
    resemblance: float


async def measured(model: LocalEmbedder) -> dict[str, list[Pair]]:
    """All pairs, by kind."""
    rows = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
    told: Mapping[str, Any] = json.loads(PAIRS.read_text("utf-8"))
    kinds = {name: list(_around(rows.extractions, told[name])) for name in told}
    contents = [_content(row.type, row.content) for row in rows.extractions]
    kinds["of the sample"] = [
        (one, other) for one, other in combinations(contents, 2) if one.type is other.type
    ]
    texts = sorted({each.text for pairs in kinds.values() for pair in pairs for each in pair})
    vectors = dict(zip(texts, await model.embed(texts, Purpose.DOCUMENT), strict=True))
    return {
        name: [
            Pair(
                sum(a * b for a, b in zip(vectors[one.text], vectors[other.text], strict=True)),
                answer_resemblance(one, other),
            )
            for one, other in pairs
        ]
        for name, pairs in kinds.items()
    }


def _around(
    sample: Sequence[SampleExtraction], told: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Content, Content]]:
    by_place = {(row.highlight, row.part, row.type): row.content for row in sample}
    for each in told:
        kind = ExtractionType(each["type"])
        original = by_place[each["highlight"], each.get("part", 1), kind]
        yield _content(kind, original), _content(kind, each["content"])


def _content(kind: ExtractionType, written: Mapping[str, Any]) -> Content:
    return CONTENTS[kind].model_validate(written)


def main() -> None:
    """Print what any rule would call duplicates, and how close the pairs lie."""
    model = LocalEmbedder()
    kinds = asyncio.run(measured(model))
    rows = [
        [
            f"{similarity} and {least}",
            *(
                str(sum(p.similarity >= similarity and p.resemblance >= least for p in pairs))
                for pairs in kinds.values()
            ),
        ]
        for similarity in (-1.0, *SIMILARITIES)
        for least in RESEMBLANCES
    ]
    heads = [f"{name} ({len(pairs)})" for name, pairs in kinds.items()]
    print_table("called duplicates, from these on", ["cosine, terms", *heads], rows)
    spread = [
        [name, *(f"{of(p.similarity for p in pairs):.2f}" for of in (min, median, max))]
        for name, pairs in kinds.items()
    ]
    print_table("cosines", ["", "least", "median", "most"], spread)
    print_table("in use", ["", "cosine"], [[model.model, str(min_similarity(model.model))]])


if __name__ == "__main__":
    main()

"""Which extractions are duplicates, on pairs of the sample and pairs made for this purpose.

Usage: python -m benchmarks.extraction_duplicates

`extraction_pairs.json` contains rephrased extractions of the sample, and others that are easily
confused with one: the same question with another answer, the same solution of another problem, the
same steps for another purpose. All pairs of extractions of one type in the sample are compared,
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

from benchmarks.measurement import print_table
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
    """The similarity of two extractions of one type: of their vectors, and of their answers."""

    similarity: float
    resemblance: float


async def measured(model: LocalEmbedder) -> dict[str, list[Pair]]:
    """Return all pairs by kind."""
    rows = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
    pairs_by_kind: Mapping[str, Any] = json.loads(PAIRS.read_text("utf-8"))
    kinds = {name: list(_around(rows.extractions, pairs_by_kind[name])) for name in pairs_by_kind}
    contents = [_content(row.type, row.content) for row in rows.extractions]
    kinds["of the sample"] = [
        (one, other) for one, other in combinations(contents, 2) if one.type is other.type
    ]
    texts = sorted({content.text for pairs in kinds.values() for pair in pairs for content in pair})
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
    sample: Sequence[SampleExtraction], pairs_by_kind: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Content, Content]]:
    by_place = {(row.highlight, row.part, row.type): row.content for row in sample}
    for entry in pairs_by_kind:
        kind = ExtractionType(entry["type"])
        original = by_place[entry["highlight"], entry.get("part", 1), kind]
        yield _content(kind, original), _content(kind, entry["content"])


def _content(kind: ExtractionType, written: Mapping[str, Any]) -> Content:
    return CONTENTS[kind].model_validate(written)


def main() -> None:
    """Print the pairs that a rule calls duplicates, and the similarities."""
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

"""The pairs of extractions that are taken for duplicates, by thresholds of two measures.

Usage: python -m benchmarks.extraction_duplicates

`extraction_pairs.json` contains rephrased extractions of the sample, and others that are easily
confused with one of the sample: the same question with another answer, the same solution of another
problem, the same steps for another purpose. All pairs of extractions of one type in the
sample are compared, too. The benchmark takes half a minute.
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
    """The cosine similarity of two extractions, and the resemblance of their answers."""

    similarity: float
    resemblance: float


async def measure_pairs(model: LocalEmbedder) -> dict[str, list[Pair]]:
    """Compare all pairs, and return the results by kind of pair."""
    rows = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
    pairs_by_kind: Mapping[str, Any] = json.loads(PAIRS.read_text("utf-8"))
    kinds = {
        name: list(_pairs_with_sample(rows.extractions, pairs_by_kind[name]))
        for name in pairs_by_kind
    }
    contents = [_content(row.type, row.content) for row in rows.extractions]
    kinds["of the sample"] = [
        (first, second) for first, second in combinations(contents, 2) if first.type is second.type
    ]
    texts = sorted({content.text for pairs in kinds.values() for pair in pairs for content in pair})
    vectors = dict(zip(texts, await model.embed(texts, Purpose.DOCUMENT), strict=True))
    return {
        name: [
            Pair(
                sum(a * b for a, b in zip(vectors[first.text], vectors[second.text], strict=True)),
                answer_resemblance(first, second),
            )
            for first, second in pairs
        ]
        for name, pairs in kinds.items()
    }


def _pairs_with_sample(
    sample: Sequence[SampleExtraction], pairs_by_kind: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Content, Content]]:
    sample_contents = {(row.highlight, row.part, row.type): row.content for row in sample}
    for entry in pairs_by_kind:
        kind = ExtractionType(entry["type"])
        original = sample_contents[entry["highlight"], entry.get("part", 1), kind]
        yield _content(kind, original), _content(kind, entry["content"])


def _content(kind: ExtractionType, fields: Mapping[str, Any]) -> Content:
    return CONTENTS[kind].model_validate(fields)


def main() -> None:
    """Print the number of duplicates by threshold, and the similarities."""
    model = LocalEmbedder()
    kinds = asyncio.run(measure_pairs(model))
    rows = [
        [
            f"{similarity} and {resemblance}",
            *(
                str(sum(p.similarity >= similarity and p.resemblance >= resemblance for p in pairs))
                for pairs in kinds.values()
            ),
        ]
        for similarity in (-1.0, *SIMILARITIES)
        for resemblance in RESEMBLANCES
    ]
    headings = [f"{name} ({len(pairs)})" for name, pairs in kinds.items()]
    print_table(
        "duplicates, with at least this similarity and resemblance",
        ["cosine, terms", *headings],
        rows,
    )
    rows = [
        [
            name,
            *(f"{aggregate(p.similarity for p in pairs):.2f}" for aggregate in (min, median, max)),
        ]
        for name, pairs in kinds.items()
    ]
    print_table("cosine similarity", ["", "minimum", "median", "maximum"], rows)
    print_table(
        "the threshold in use", ["", "cosine"], [[model.model, str(min_similarity(model.model))]]
    )


if __name__ == "__main__":
    main()

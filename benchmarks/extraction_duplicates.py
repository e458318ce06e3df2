"""How many pairs of extractions count as duplicates, for several thresholds of two measures.

Usage: python -m benchmarks.extraction_duplicates

`extraction_pairs.json` pairs extractions of the sample with rephrased ones, and with others that
are easily confused with them: the same question with another answer, the same solution of another
problem, the same steps for another purpose. All pairs of the sample's extractions of the same type
are compared, too. The benchmark takes half a minute.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measurement import print_table
from infra.local.sample.extractions import SampleExtractions
from infra.local.sample.knowledge import FOLDER
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import (
    compute_answer_resemblance,
    get_min_similarity,
    is_correction,
)
from shared.extractions.model import CONTENTS, Content, ExtractionType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from infra.local.sample.extractions import SampleExtraction

PAIRS: Final = Path(__file__).with_name("extraction_pairs.json")
SIMILARITIES: Final = (0.7, 0.75, 0.8, 0.85, 0.9)
RESEMBLANCES: Final = (0.0, 0.15, 0.2, 0.25, 0.3, 0.35)


@dataclass(frozen=True, slots=True)
class Pair:
    """The cosine similarity of two extractions, the resemblance of their answers, and a correction.

    Corrections are not duplicates at any threshold.
    """

    similarity: float
    resemblance: float
    is_correction: bool

    def is_duplicate(self, min_similarity: float, min_resemblance: float) -> bool:
        """Return whether both measures reach their thresholds."""
        return self.similarity >= min_similarity and self.resemblance >= min_resemblance


async def measure_pairs(model: LocalEmbedder) -> dict[str, list[Pair]]:
    """Compare all pairs, and return the results by kind of pair."""
    contents_by_kind = read_pairs()
    texts = sorted(
        {content.text for pairs in contents_by_kind.values() for pair in pairs for content in pair}
    )
    vectors = dict(zip(texts, await model.embed(texts, Purpose.DOCUMENT), strict=True))

    def compare(first: Content, second: Content) -> Pair:
        components = zip(vectors[first.text], vectors[second.text], strict=True)
        cosine = sum(a * b for a, b in components)  # the vectors have length 1
        resemblance = compute_answer_resemblance(first, second)
        return Pair(cosine, resemblance, is_correction(first, second))

    return {
        kind: [compare(first, second) for first, second in pairs]
        for kind, pairs in contents_by_kind.items()
    }


def read_pairs() -> dict[str, list[tuple[Content, Content]]]:
    """Return the pairs to compare, by kind of pair."""
    sample = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
    entries_by_kind: Mapping[str, Any] = json.loads(PAIRS.read_text("utf-8"))
    pairs_by_kind = {
        kind: list(_iterate_pairs(sample.extractions, entries))
        for kind, entries in entries_by_kind.items()
    }
    contents = [_to_content(row.type, row.content) for row in sample.extractions]
    pairs_by_kind["of the sample"] = [
        (first, second) for first, second in combinations(contents, 2) if first.type is second.type
    ]
    return pairs_by_kind


def _iterate_pairs(
    sample: Sequence[SampleExtraction], entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Content, Content]]:
    sample_contents = {(row.highlight, row.part, row.type): row.content for row in sample}
    for entry in entries:
        kind = ExtractionType(entry["type"])
        original = sample_contents[entry["highlight"], entry.get("part", 1), kind]
        yield _to_content(kind, original), _to_content(kind, entry["content"])


def _to_content(kind: ExtractionType, fields: Mapping[str, Any]) -> Content:
    return CONTENTS[kind].model_validate(fields)


def main() -> None:
    """Print the number of duplicates for each pair of thresholds, and the similarities."""
    model = LocalEmbedder()
    pairs_by_kind = asyncio.run(measure_pairs(model))
    headings = [f"{kind} ({len(pairs)})" for kind, pairs in pairs_by_kind.items()]
    for title, with_corrections in (("with corrections", True), ("without corrections", False)):
        rows = []
        for similarity, resemblance in product((-1.0, *SIMILARITIES), RESEMBLANCES):
            counts = (
                sum(
                    pair.is_duplicate(similarity, resemblance)
                    and (with_corrections or not pair.is_correction)
                    for pair in pairs
                )
                for pairs in pairs_by_kind.values()
            )
            rows.append([f"{similarity} and {resemblance}", *map(str, counts)])
        print_table(
            f"pairs with at least this similarity and resemblance, {title}",
            ["cosine, terms", *headings],
            rows,
        )
    rows = [
        [
            kind,
            *(
                f"{aggregate(pair.similarity for pair in pairs):.2f}"
                for aggregate in (min, median, max)
            ),
        ]
        for kind, pairs in pairs_by_kind.items()
    ]
    print_table("cosine similarity", ["", "minimum", "median", "maximum"], rows)
    print_table(
        "the threshold in use",
        ["", "cosine"],
        [[model.model, str(get_min_similarity(model.model))]],
    )


if __name__ == "__main__":
    main()

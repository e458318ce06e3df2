"""Two extractions are duplicates if they are close in meaning and give the same answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import (
    answer_resemblance,
    compute_similarities,
    drop_duplicates,
    find_original,
)
from shared.extractions.model import (
    Content,
    Decision,
    Extraction,
    Methodology,
    Pattern,
    Pitfall,
    Step,
    compute_extraction_id,
)

if TYPE_CHECKING:
    from shared.extractions.deduplication import Embedded

pytestmark = pytest.mark.anyio

QUESTION = "Natural key or surrogate key?"
SURROGATE = "The surrogate as primary key, and the natural key as a unique constraint."
ORIGINAL = Decision(
    question=QUESTION,
    options=("Natural", "Surrogate"),
    considerations=(),
    recommended_approach=SURROGATE,
)
PARAPHRASE = ORIGINAL.model_copy(
    update={"question": "Should a table have a natural or a surrogate key?"}
)
OTHER_ANSWER = ORIGINAL.model_copy(update={"recommended_approach": "The code that the world uses."})
MODEL = LocalEmbedder.model


def make_extraction(content: Content, confidence: float = 0.9) -> Extraction:
    return Extraction(
        extraction_id=compute_extraction_id("c", content),
        content=content,
        topics=("keys",),
        quote="q",
        source_id="s",
        chunk_id="c",
        confidence=confidence,
        model="m",
        extracted_at=datetime(2026, 5, 31, tzinfo=UTC),
    )


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The real model: the threshold was measured on its vectors."""
    return local_embedder


async def embed(embedder: LocalEmbedder, *extractions: Extraction) -> list[Embedded]:
    vectors = await embedder.embed(
        [extraction.content.text for extraction in extractions], Purpose.DOCUMENT
    )
    return list(zip(extractions, vectors, strict=True))


async def test_a_paraphrase_is_a_duplicate(embedder: LocalEmbedder) -> None:
    original, paraphrase = await embed(
        embedder, make_extraction(ORIGINAL), make_extraction(PARAPHRASE)
    )
    assert original[0] == find_original(
        paraphrase[0], compute_similarities(paraphrase, [original]), MODEL
    )


async def test_another_answer_to_the_same_question_is_no_duplicate(embedder: LocalEmbedder) -> None:
    original, other_answer = await embed(
        embedder, make_extraction(ORIGINAL), make_extraction(OTHER_ANSWER)
    )
    assert (
        find_original(other_answer[0], compute_similarities(other_answer, [original]), MODEL)
        is None
    )


async def test_the_closest_of_several_is_the_original(embedder: LocalEmbedder) -> None:
    original, paraphrase, copy = await embed(
        embedder, make_extraction(ORIGINAL), make_extraction(PARAPHRASE), make_extraction(ORIGINAL)
    )
    assert original[0] == find_original(
        copy[0], compute_similarities(copy, [paraphrase, original]), MODEL
    )


def test_another_type_is_never_the_original() -> None:
    warning = make_extraction(Pitfall(title=QUESTION, description=SURROGATE))
    assert find_original(warning, [(make_extraction(ORIGINAL), 1.0)], MODEL) is None


def test_a_model_that_was_not_measured_has_a_higher_threshold() -> None:
    original, paraphrase = make_extraction(ORIGINAL), make_extraction(PARAPHRASE)
    assert find_original(paraphrase, [(original, 0.85)], MODEL) == original
    assert find_original(paraphrase, [(original, 0.85)], "another") is None
    assert find_original(paraphrase, [(original, 0.95)], "another") == original


async def test_the_duplicate_with_more_confidence_stays(
    embedder: LocalEmbedder,
) -> None:
    extractions = await embed(
        embedder,
        make_extraction(ORIGINAL, 0.6),
        make_extraction(OTHER_ANSWER, 0.7),
        make_extraction(PARAPHRASE, 0.8),
    )
    assert drop_duplicates(extractions, MODEL) == extractions[1:]


@pytest.mark.parametrize(
    ("content", "change"),
    [
        (Pattern(name="n", problem="p", solution="walk the key"), {"solution": "sleep a while"}),
        (Pitfall(title="t", description="flags breed"), {"description": "nobody reads"}),
        (ORIGINAL.model_copy(update={"recommended_approach": None}), {"options": ("Random",)}),
        (
            Methodology(name="n", steps=(Step(order=1, title="measure", description="d"),)),
            {"steps": (Step(order=1, title="predict", description="d"),)},
        ),
    ],
)
def test_only_the_answer_counts(content: Content, change: dict[str, object]) -> None:
    assert answer_resemblance(content, content) == 1.0
    assert answer_resemblance(content, content.model_copy(update=change)) == 0.0


def test_extractions_without_duplicates_all_stay() -> None:
    assert drop_duplicates([], MODEL) == []
    embedded_extraction = (replace(make_extraction(ORIGINAL), confidence=0.1), (1.0, 0.0))
    assert drop_duplicates([embedded_extraction], MODEL) == [embedded_extraction]


@pytest.mark.parametrize("answer", ["No.", "Both", "❌", "Do not."])
async def test_an_answer_of_common_words_only_equals_itself(
    embedder: LocalEmbedder, answer: str
) -> None:
    decision = ORIGINAL.model_copy(update={"recommended_approach": answer})
    upper_case_decision = decision.model_copy(update={"recommended_approach": answer.upper()})
    other_decision = decision.model_copy(update={"recommended_approach": "Yes"})
    original, repetition, different_answer = await embed(
        embedder, *map(make_extraction, (decision, upper_case_decision, other_decision))
    )
    assert original[0] == find_original(
        repetition[0], compute_similarities(repetition, [original]), MODEL
    )
    assert (
        find_original(
            different_answer[0], compute_similarities(different_answer, [original]), MODEL
        )
        is None
    )

"""Two extractions say the same if they are close in meaning and give the same answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import distinct, original_of, resemblance_of, similar
from shared.extractions.model import (
    Content,
    Decision,
    Extraction,
    Methodology,
    Pattern,
    Pitfall,
    Step,
    extraction_id,
)

if TYPE_CHECKING:
    from shared.extractions.deduplication import Embedded

pytestmark = pytest.mark.anyio

QUESTION = "Natural key or surrogate key?"
SURROGATE = "The surrogate as primary key, and the natural key as a unique constraint."
TOLD = Decision(
    question=QUESTION,
    options=("Natural", "Surrogate"),
    considerations=(),
    recommended_approach=SURROGATE,
)
ANEW = TOLD.model_copy(update={"question": "Should a table have a natural or a surrogate key?"})
OTHERWISE = TOLD.model_copy(update={"recommended_approach": "The code that the world uses."})
MODEL = LocalEmbedder.model


def extraction(content: Content, confidence: float = 0.9) -> Extraction:
    return Extraction(
        extraction_id=extraction_id("c", content),
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
    """The real model: what is alike is said of its vectors."""
    return local_embedder


async def embedded(embedder: LocalEmbedder, *extractions: Extraction) -> list[Embedded]:
    vectors = await embedder.embed([each.content.text for each in extractions], Purpose.DOCUMENT)
    return list(zip(extractions, vectors, strict=True))


async def test_the_same_told_anew_is_a_duplicate(embedder: LocalEmbedder) -> None:
    one, anew = await embedded(embedder, extraction(TOLD), extraction(ANEW))
    assert one[0] == original_of(anew[0], similar(anew, [one]), MODEL)


async def test_the_same_question_answered_otherwise_is_none(embedder: LocalEmbedder) -> None:
    one, other = await embedded(embedder, extraction(TOLD), extraction(OTHERWISE))
    assert original_of(other[0], similar(other, [one]), MODEL) is None


async def test_the_closest_of_several_is_the_original(embedder: LocalEmbedder) -> None:
    one, anew, again = await embedded(
        embedder, extraction(TOLD), extraction(ANEW), extraction(TOLD)
    )
    assert one[0] == original_of(again[0], similar(again, [anew, one]), MODEL)


def test_another_type_is_never_the_original() -> None:
    warning = extraction(Pitfall(title=QUESTION, description=SURROGATE))
    assert original_of(warning, [(extraction(TOLD), 1.0)], MODEL) is None


def test_a_model_that_was_not_measured_must_be_surer() -> None:
    original, new = extraction(TOLD), extraction(ANEW)
    assert original == original_of(new, [(original, 0.85)], MODEL)
    assert original_of(new, [(original, 0.85)], "another") is None
    assert original == original_of(new, [(original, 0.95)], "another")


async def test_of_two_in_a_passage_that_say_the_same_the_surer_stays(
    embedder: LocalEmbedder,
) -> None:
    made = await embedded(
        embedder, extraction(TOLD, 0.6), extraction(OTHERWISE, 0.7), extraction(ANEW, 0.8)
    )
    assert made[1:] == distinct(made, MODEL)


@pytest.mark.parametrize(
    ("content", "change"),
    [
        (Pattern(name="n", problem="p", solution="walk the key"), {"solution": "sleep a while"}),
        (Pitfall(title="t", description="flags breed"), {"description": "nobody reads"}),
        (TOLD.model_copy(update={"recommended_approach": None}), {"options": ("Random",)}),
        (
            Methodology(name="n", steps=(Step(order=1, title="measure", description="d"),)),
            {"steps": (Step(order=1, title="predict", description="d"),)},
        ),
    ],
)
def test_what_counts_is_what_it_answers(content: Content, change: dict[str, object]) -> None:
    assert 1.0 == resemblance_of(content, content)
    assert 0.0 == resemblance_of(content, content.model_copy(update=change))


def test_what_does_not_say_the_same_stays_as_it_is() -> None:
    assert [] == distinct([], MODEL)
    one = (replace(extraction(TOLD), confidence=0.1), (1.0, 0.0))
    assert [one] == distinct([one], MODEL)


@pytest.mark.parametrize("answer", ["No.", "Both", "❌", "Do not."])
async def test_an_answer_of_common_words_equals_itself_alone(
    embedder: LocalEmbedder, answer: str
) -> None:
    told = TOLD.model_copy(update={"recommended_approach": answer})
    again = told.model_copy(update={"recommended_approach": answer.upper()})
    other = told.model_copy(update={"recommended_approach": "Yes"})
    one, same, otherwise = await embedded(embedder, *map(extraction, (told, again, other)))
    assert one[0] == original_of(same[0], similar(same, [one]), MODEL)
    assert original_of(otherwise[0], similar(otherwise, [one]), MODEL) is None

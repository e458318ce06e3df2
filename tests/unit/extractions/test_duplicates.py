"""Two extractions are duplicates if they are close in meaning and give the same answer."""

from datetime import UTC, datetime

import pytest

from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import (
    EmbeddedExtraction,
    SimilarExtraction,
    compute_answer_resemblance,
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
MODEL_NAME = LocalEmbedder.model


def make_extraction(content: Content, confidence: float = 0.9) -> Extraction:
    extraction_id = compute_extraction_id("c", content)
    return Extraction(
        extraction_id=extraction_id,
        group=extraction_id,
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


async def embed_extractions(
    embedder: LocalEmbedder, *extractions: Extraction
) -> list[EmbeddedExtraction]:
    texts = [extraction.content.text for extraction in extractions]
    vectors = await embedder.embed(texts, Purpose.DOCUMENT)
    return [EmbeddedExtraction(*pair) for pair in zip(extractions, vectors, strict=True)]


def find_embedded_original(
    embedded: EmbeddedExtraction, *candidates: EmbeddedExtraction
) -> Extraction | None:
    """Return the candidate of which an extraction is a duplicate; None if there is none."""
    extraction, _ = embedded
    return find_original(
        extraction, compute_similarities(embedded, candidates, MODEL_NAME), MODEL_NAME
    )


async def test_a_paraphrase_is_a_duplicate_and_another_answer_is_not(
    embedder: LocalEmbedder,
) -> None:
    contents = [ORIGINAL, PARAPHRASE, OTHER_ANSWER]
    original, paraphrase, other_answer = await embed_extractions(
        embedder, *map(make_extraction, contents)
    )
    assert find_embedded_original(paraphrase, original) == original[0]
    assert find_embedded_original(other_answer, original) is None
    copy = EmbeddedExtraction(make_extraction(ORIGINAL), original[1])
    assert find_embedded_original(copy, paraphrase, original) == original[0]


def test_an_extraction_of_another_type_is_never_the_original() -> None:
    warning = make_extraction(Pitfall(title=QUESTION, description=SURROGATE))
    similar = [SimilarExtraction(make_extraction(ORIGINAL), 1.0)]
    assert find_original(warning, similar, MODEL_NAME) is None


def test_an_unmeasured_embedding_model_has_a_higher_threshold() -> None:
    original, paraphrase = make_extraction(ORIGINAL), make_extraction(PARAPHRASE)
    assert find_original(paraphrase, [SimilarExtraction(original, 0.85)], MODEL_NAME) == original
    assert find_original(paraphrase, [SimilarExtraction(original, 0.85)], "another") is None
    assert find_original(paraphrase, [SimilarExtraction(original, 0.95)], "another") == original


async def test_the_duplicate_with_more_confidence_stays(embedder: LocalEmbedder) -> None:
    extractions = await embed_extractions(
        embedder,
        make_extraction(ORIGINAL, 0.6),
        make_extraction(OTHER_ANSWER, 0.7),
        make_extraction(PARAPHRASE, 0.8),
    )
    assert drop_duplicates(extractions, MODEL_NAME) == extractions[1:]
    assert drop_duplicates(extractions[:1], MODEL_NAME) == extractions[:1]
    assert drop_duplicates([], MODEL_NAME) == []


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
def test_only_the_answers_of_two_extractions_are_compared(
    content: Content, change: dict[str, object]
) -> None:
    assert compute_answer_resemblance(content, content) == 1.0
    assert compute_answer_resemblance(content, content.model_copy(update=change)) == 0.0


@pytest.mark.parametrize("answer", ["No.", "Both", "❌", "Do not."])
async def test_an_answer_of_common_words_duplicates_only_itself(
    embedder: LocalEmbedder, answer: str
) -> None:
    decision = ORIGINAL.model_copy(update={"recommended_approach": answer})
    upper_case_decision = decision.model_copy(update={"recommended_approach": answer.upper()})
    other_decision = decision.model_copy(update={"recommended_approach": "Yes"})
    original, repetition, different_answer = await embed_extractions(
        embedder, *map(make_extraction, (decision, upper_case_decision, other_decision))
    )
    assert find_embedded_original(repetition, original) == original[0]
    assert find_embedded_original(different_answer, original) is None


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("Use retries for every call.", "Do not use retries for every call."),
        ("Alice reports to Bob.", "Bob reports to Alice."),
        ("Set the timeout to 5 s.", "Set the timeout to 50 s."),
    ],
)
def test_a_correction_is_not_a_duplicate(answer: str, other: str) -> None:
    original = make_extraction(ORIGINAL.model_copy(update={"recommended_approach": answer}))
    similar = [SimilarExtraction(original, 1.0)]
    assert find_original(original, similar, MODEL_NAME) == original
    for change in ({"recommended_approach": other}, {"question": f"{QUESTION} Not for logs."}):
        correction = make_extraction(original.content.model_copy(update=change))
        assert find_original(correction, similar, MODEL_NAME) is None

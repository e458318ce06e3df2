"""Answers of a language model are read leniently, and their quotes are checked."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from shared.ai.answer_schema import build_answer_schema
from shared.extractions.model import Decision, Extraction, Pattern
from shared.extractions.prompt import Findings, build_passage_prompt
from shared.extractions.quotes import build_extractions, count_findings
from shared.knowledge.queue import PendingChunk

NOW = datetime(2026, 5, 31, tzinfo=UTC)
CONTENT = (
    "We chose the fake, since a mock goes stale. Call `an_order(country=1)` for the rest of it."
)


def make_chunk(title: str = "Title", content: str = CONTENT) -> PendingChunk:
    return PendingChunk("c", "s", title, content, "hash", 0, None)


def make_finding(**fields: Any) -> dict[str, Any]:
    """Make a decision as a model may report it."""
    content = {"question": "Mock or fake?", "options": ["Mock", "Fake"], "considerations": []}
    quote = "We chose the fake, since a mock goes stale."
    return {"quote": quote, "content": content, "topics": ["testing"], "confidence": 0.9, **fields}


def make_pattern(code: str) -> dict[str, Any]:
    """Make a pattern with an example of code, as a model may report it."""
    content = {"name": "Order", "problem": "Many.", "solution": "One.", "code_example": code}
    return make_finding(content=content)


def extract(findings: dict[str, Any], **fields: Any) -> list[Extraction]:
    """Return the extractions from an answer of the model."""
    defaults: dict[str, Any] = {"chunk": make_chunk(), "aliases": {}, "model": "m", "now": NOW}
    return build_extractions(Findings.model_validate(findings), **(defaults | fields))


def test_an_extraction_names_its_chunk_source_and_model() -> None:
    [extraction] = extract({"decisions": [make_finding(), make_finding()]})
    expected = Extraction(
        extraction_id=extraction.extraction_id,
        content=Decision(question="Mock or fake?", options=("Mock", "Fake"), considerations=()),
        topics=("testing",),
        quote="We chose the fake, since a mock goes stale.",
        source_id="s",
        chunk_id="c",
        confidence=0.9,
        model="m",
        extracted_at=NOW,
        group=extraction.extraction_id,
    )
    assert extraction == expected
    [other_extraction] = extract({"decisions": [make_finding(confidence=0.6)]}, model="another")
    assert other_extraction.extraction_id == extraction.extraction_id
    assert extract({}) == []


def test_a_finding_without_a_quote_in_the_passage_is_dropped() -> None:
    findings = {"decisions": [make_finding(quote="Everybody should buy our product at once.")]}
    assert count_findings(Findings.model_validate(findings)) == 1
    assert count_findings(Findings.model_validate({"decisions": [], "patterns": []})) == 0
    assert extract(findings) == []


def test_the_title_cannot_be_quoted() -> None:
    chunk = make_chunk(title="Title of a source")
    assert build_passage_prompt(chunk.title, chunk.content).startswith("Title of a source\n\n")
    findings = {"decisions": [make_finding(quote="Title of a source")]}
    assert extract(findings, chunk=chunk) == []


def test_the_stored_quote_is_the_text_of_the_passage() -> None:
    [extraction] = extract({"decisions": [make_finding(quote="we chose the FAKE since")]})
    assert extraction.quote == "We chose the fake, since"


@pytest.mark.parametrize(
    ("code", "expected"),
    [("an_order( country=1 )", "an_order(country=1)"), ("an_order(country=2)", None)],
)
def test_code_is_taken_from_the_passage_or_dropped(code: str, expected: str | None) -> None:
    [extraction] = extract({"patterns": [make_pattern(code)]})
    assert isinstance(extraction.content, Pattern)
    assert extraction.content.code_example == expected


@pytest.mark.parametrize(
    ("confidence", "expected"), [(1.7, 1.0), (-3, 0.0), (0.85, 0.85), (float("nan"), 0.0), (1, 1.0)]
)
def test_a_confidence_is_limited_to_0_to_1(confidence: float, expected: float) -> None:
    [extraction] = extract({"decisions": [make_finding(confidence=confidence)]})
    assert extraction.confidence == expected


def test_topics_are_canonical_and_at_most_five() -> None:
    topics = ["LLMs", "Large-Language-Models", "Kube", "b", "c", "d", "e", "f"]
    aliases = {"kube": "container orchestration"}
    [extraction] = extract({"decisions": [make_finding(topics=topics)]}, aliases=aliases)
    assert "container orchestration" in extraction.topics
    assert len(extraction.topics) == 5


def test_blank_strings_count_as_missing() -> None:
    content = {
        "question": "Mock or fake?",
        "options": ["Mock", "", "  ", None],
        "considerations": [""],
        "recommended_approach": " ",
    }
    [extraction] = extract({"decisions": [make_finding(content=content)], "patterns": None})
    expected = Decision(question="Mock or fake?", options=("Mock",), considerations=())
    assert extraction.content == expected


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": [make_finding(quote="")]},
        {"decisions": [make_finding(content={"options": [], "considerations": []})]},
        {"decisions": [make_finding(confidence="surely")]},
        {"decisions": "none"},
        {"decisions": [make_finding()] * 11},
        {"methodologies": [make_finding(content={"name": "No steps", "steps": []})]},
        [],
        "nothing",
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: Any) -> None:
    with pytest.raises(ValidationError):
        Findings.model_validate(answer)


def test_the_schema_for_the_model_has_no_references() -> None:
    schema = build_answer_schema(Findings)
    assert "$ref" not in str(schema)
    assert list(schema["properties"]) == ["decisions", "patterns", "warnings", "methodologies"]
    fields = schema["properties"]["warnings"]["items"]["properties"]
    assert list(fields) == ["quote", "content", "topics", "confidence"]

"""What a model answers is read leniently where its shape allows it, and checked where it counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from shared.ai.answer_schema import answer_schema
from shared.extractions.model import Decision, ExtractionType, Pattern
from shared.extractions.prompt import Findings, material
from shared.extractions.quotes import Grounds, count
from shared.knowledge.queue import PendingChunk

NOW = datetime(2026, 5, 31, tzinfo=UTC)
CONTENT = (
    "We chose the fake, since a mock goes stale. Call `an_order(country=1)` for the rest of it."
)


def chunk(content: str = CONTENT) -> PendingChunk:
    return PendingChunk("c", "s", "Title", content, "hash", 0, None)


def entry(**fields: Any) -> dict[str, Any]:
    """A decision, as a model might tell it."""
    content = {"question": "Mock or fake?", "options": ["Mock", "Fake"], "considerations": []}
    quote = "We chose the fake, since a mock goes stale."
    return {
        "quote": quote,
        "content": content,
        "topics": ["testing"],
        "confidence": 0.9,
        **fields,
    }


def pattern(code: str) -> dict[str, Any]:
    content = {"name": "Order", "problem": "Many.", "solution": "One.", "code_example": code}
    return entry(content=content)


def findings(**lists: Any) -> Findings:
    return Findings.model_validate(lists)


def grounds(**fields: Any) -> Grounds:
    return Grounds(**{"chunk": chunk(), "aliases": {}, "model": "m", "now": NOW, **fields})


def test_nothing_found_is_an_answer() -> None:
    assert [] == grounds().extractions(Findings.model_validate({}))
    assert 0 == count(findings(decisions=[], patterns=[]))


def test_an_extraction_says_where_it_comes_from() -> None:
    [found] = grounds().extractions(findings(decisions=[entry()]))
    assert ("c", "s", "m", NOW) == (
        found.chunk_id,
        found.source_id,
        found.model,
        found.extracted_at,
    )
    assert (ExtractionType.DECISION, ("testing",), 0.9) == (
        found.type,
        found.topics,
        found.confidence,
    )
    assert found.quote == "We chose the fake, since a mock goes stale."


def test_the_same_again_has_the_same_id() -> None:
    [one] = grounds().extractions(findings(decisions=[entry()]))
    [again] = grounds(model="another").extractions(findings(decisions=[entry(confidence=0.6)]))
    assert one.extraction_id == again.extraction_id


def test_what_is_told_twice_is_kept_once() -> None:
    assert 1 == len(grounds().extractions(findings(decisions=[entry(), entry()])))


def test_what_is_not_in_the_passage_is_left_out() -> None:
    told = findings(decisions=[entry(quote="Everybody should buy our product at once.")])
    assert (1, []) == (count(told), grounds().extractions(told))


def test_the_title_is_no_part_of_the_passage() -> None:
    titled = chunk()
    assert material(titled.title, titled.content).startswith("Title\n\n")
    told = findings(decisions=[entry(quote="Title of a source")])
    long = PendingChunk("c", "s", "Title of a source", CONTENT, "hash", 0, None)
    assert [] == grounds(chunk=long).extractions(told)


def test_the_quote_is_kept_in_the_passages_own_words() -> None:
    [found] = grounds().extractions(findings(decisions=[entry(quote="we chose the FAKE since")]))
    assert found.quote == "We chose the fake, since"


@pytest.mark.parametrize(
    ("code", "expected"),
    [("an_order( country=1 )", "an_order(country=1)"), ("an_order(country=2)", None)],
)
def test_code_is_the_passages_own_or_none(code: str, expected: str | None) -> None:
    [found] = grounds().extractions(findings(patterns=[pattern(code)]))
    assert isinstance(found.content, Pattern)
    assert expected == found.content.code_example


@pytest.mark.parametrize(
    ("told", "kept"), [(1.7, 1.0), (-3, 0.0), (0.85, 0.85), (float("nan"), 0.0), (1, 1.0)]
)
def test_a_confidence_is_brought_between_0_and_1(told: float, kept: float) -> None:
    [found] = grounds().extractions(findings(decisions=[entry(confidence=told)]))
    assert kept == found.confidence


def test_topics_are_known_under_one_name_and_five_at_most() -> None:
    told = ["LLMs", "Large-Language-Models", "Kube", "b", "c", "d", "e", "f"]
    aliases = {"kube": "container orchestration"}
    [found] = grounds(aliases=aliases).extractions(findings(decisions=[entry(topics=told)]))
    assert "container orchestration" in found.topics
    assert 5 == len(found.topics)


def test_what_is_left_open_in_blanks_is_left_out() -> None:
    content = {
        "question": "Mock or fake?",
        "options": ["Mock", "", "  ", None],
        "considerations": [""],
        "recommended_approach": " ",
    }
    [found] = grounds().extractions(findings(decisions=[entry(content=content)], patterns=None))
    assert Decision(question="Mock or fake?", options=("Mock",), considerations=()) == found.content


@pytest.mark.parametrize(
    "told",
    [
        {"decisions": [entry(quote="")]},
        {"decisions": [entry(content={"options": [], "considerations": []})]},
        {"decisions": [entry(confidence="surely")]},
        {"decisions": "none"},
        {"decisions": [entry()] * 11},
        {"methodologies": [entry(content={"name": "No steps", "steps": []})]},
        [],
        "nothing",
    ],
)
def test_another_shape_is_refused(told: Any) -> None:
    with pytest.raises(ValidationError):
        Findings.model_validate(told)


def test_a_model_is_told_the_shape_without_references() -> None:
    schema = answer_schema(Findings)
    assert "$ref" not in str(schema)
    assert ["decisions", "patterns", "warnings", "methodologies"] == list(schema["properties"])
    told = schema["properties"]["warnings"]["items"]["properties"]
    assert ["quote", "content", "topics", "confidence"] == list(told)

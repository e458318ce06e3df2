"""Extractions are formatted as text for a model, with the quote to cite."""

from __future__ import annotations

from typing import Any

import pytest

from functions.tools.extractions.get_decisions.tool import DecisionResult
from functions.tools.extractions.get_methodologies.tool import MethodologyResult
from functions.tools.extractions.get_patterns.tool import PatternResult
from functions.tools.extractions.get_warnings.tool import WarningResult
from shared.extractions.lookup import format_extraction
from shared.extractions.model import Step
from shared.extractions.views import Attribution

ORIGIN: dict[str, Any] = {
    "id": "e1",
    "topics": ["bread"],
    "source_title": "Bread at Home",
    "source_id": "baking",
    "chunk_id": "baking-1",
    "confidence": 0.9,
    "quote": "Use rye.",
    "similarity": None,
}
CITED = '   Quote from Bread at Home (ID baking-1): "Use rye."'


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            DecisionResult(
                question="Which flour?",
                options=("rye", "wheat"),
                considerations=(),
                recommended_approach="Rye.",
                **ORIGIN,
            ),
            "Which flour?\n   Options:\n   - rye\n   - wheat\n   Recommended approach: Rye.",
        ),
        (
            PatternResult(
                name="Timer",
                problem="It burns.",
                solution="Set one.",
                code_example="a\nb",
                **ORIGIN,
            ),
            "Timer\n   Problem: It burns.\n   Solution: Set one.\n   Code example:\n   a\n   b",
        ),
        (
            WarningResult(title="Starving", description="It dies.", symptoms=("smell",), **ORIGIN),
            "Starving\n   Description: It dies.\n   Symptoms:\n   - smell",
        ),
        (
            MethodologyResult(
                name="Baking",
                steps=(Step(order=1, title="Knead", description="Long.", tips=("Rest.",)),),
                **ORIGIN,
            ),
            "Baking\n   Steps:\n   1. Knead: Long.\n      - Rest.",
        ),
    ],
)
def test_the_text_shows_the_content_and_the_quote_to_cite(
    result: Attribution, expected: str
) -> None:
    assert format_extraction(result) == f"{expected}\n{CITED}"

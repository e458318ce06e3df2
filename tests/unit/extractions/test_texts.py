"""Extractions are formatted as text for a model, with the quote to cite."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

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
RESULTS = [
    DecisionResult(
        question="Which flour?",
        options=("rye", "wheat"),
        considerations=(),
        recommended_approach="Rye.",
        **ORIGIN,
    ),
    PatternResult(
        name="Timer", problem="It burns.", solution="Set one.", code_example="a\nb", **ORIGIN
    ),
    WarningResult(title="Starving", description="It dies.", symptoms=("smell",), **ORIGIN),
    MethodologyResult(
        name="Baking",
        steps=(Step(order=1, title="Knead", description="Long.", tips=("Rest.",)),),
        **ORIGIN,
    ),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_the_text_shows_the_content_and_the_quote_to_cite(
    result: Attribution, snapshot: SnapshotAssertion
) -> None:
    assert format_extraction(result) == snapshot

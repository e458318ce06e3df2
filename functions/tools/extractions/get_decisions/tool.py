"""Get the decisions that the owner's sources discuss."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Decision
from shared.extractions.views import Attribution, ExtractionArguments, LookupAnswer, WithId


class In(ExtractionArguments):
    """Which decisions to get."""


class DecisionResult(Attribution, Decision, WithId):
    """A decision that a source discusses."""


class Out(LookupAnswer[DecisionResult]):
    """A page of decisions."""


TOOL = lookup_tool(
    name="get_decisions",
    title="Get decisions",
    description=(
        "Get decisions that the owner's sources discuss: options, considerations, recommendation."
        " Use it to choose between alternatives; for risks use get_warnings, else search_kb. Cite"
        " source_title."
    ),
    input=In,
    output=Out,
    result_type=DecisionResult,
)

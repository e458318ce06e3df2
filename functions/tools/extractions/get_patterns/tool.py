"""Get the solutions to recurring problems in the owner's sources."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Pattern
from shared.extractions.views import Attribution, ExtractionArguments, LookupAnswer, WithId


class In(ExtractionArguments):
    """Which patterns to get."""


class PatternResult(Attribution, Pattern, WithId):
    """A solution to a recurring problem."""


class Out(LookupAnswer[PatternResult]):
    """A page of patterns."""


TOOL = lookup_tool(
    name="get_patterns",
    title="Get patterns",
    description=(
        "Get patterns from the owner's sources: a recurring problem, its solution, code and"
        " trade-offs. Use it to build or solve something; for procedures use get_methodologies,"
        " else search_kb. Cite source_title."
    ),
    input=In,
    output=Out,
    result_type=PatternResult,
)

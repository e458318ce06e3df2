"""Get what the owner's sources warn of."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Pitfall
from shared.extractions.views import Attribution, ExtractionArguments, LookupAnswer, WithId


class In(ExtractionArguments):
    """Which warnings to get."""


class WarningResult(Attribution, Pitfall, WithId):
    """Something that goes wrong, and why."""


class Out(LookupAnswer[WarningResult]):
    """A page of warnings."""


TOOL = lookup_tool(
    name="get_warnings",
    title="Get warnings",
    description=(
        "Get warnings from the owner's sources: what goes wrong, symptoms, consequences,"
        " prevention. Use it before doing something, or when it went wrong; for solutions use"
        " get_patterns, else search_kb. Cite source_title."
    ),
    input=In,
    output=Out,
    result_type=WarningResult,
)

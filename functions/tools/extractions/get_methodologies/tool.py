"""Get the step-by-step procedures in the owner's sources."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Methodology
from shared.extractions.views import Attribution, ExtractionArguments, LookupAnswer, WithId


class In(ExtractionArguments):
    """Which methodologies to get."""


class MethodologyResult(Attribution, Methodology, WithId):
    """A procedure, step by step."""


class Out(LookupAnswer[MethodologyResult]):
    """A page of methodologies."""


TOOL = lookup_tool(
    name="get_methodologies",
    title="Get methodologies",
    description=(
        "Get procedures from the owner's sources: steps, prerequisites, tips, results. Use it to"
        " plan or carry out work; for choices use get_decisions, else search_kb. Cite"
        " source_title."
    ),
    input=In,
    output=Out,
    result_type=MethodologyResult,
)

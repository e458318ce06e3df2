"""Find solutions that the owner's sources give to recurring problems."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Pattern
from shared.extractions.views import Answer, Attribution, ExtractionArguments, Identified


class In(ExtractionArguments):
    """Which patterns."""


class PatternResult(Attribution, Pattern, Identified):
    """A solution to a recurring problem."""


class Out(Answer[PatternResult]):
    """Patterns, and what is to know of them."""


TOOL = lookup_tool(
    name="get_patterns",
    title="Get patterns",
    description=(
        "Find patterns that the owner's sources describe: a recurring problem, its solution,"
        " code where the source has some, and the trade-offs. Use it when something is to be"
        " built or solved: by topic, or with query for a problem of your own. To choose between"
        " options use get_decisions, for what goes wrong get_warnings, for ways of working"
        " get_methodologies; for how others here solved a coding problem search_traces, and for"
        " what texts say about anything else search_kb. list_topics says what there is; get_chunk"
        " reads the passage behind a result. Cite source_title."
    ),
    input=In,
    output=Out,
    kind=PatternResult,
    item_name="name",
)

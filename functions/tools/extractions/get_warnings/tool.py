"""Find what the owner's sources warn of."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Pitfall
from shared.extractions.views import Answer, Attribution, ExtractionArguments, Identified


class In(ExtractionArguments):
    """Which warnings."""


class WarningResult(Attribution, Pitfall, Identified):
    """Something that goes wrong, and how."""


class Out(Answer[WarningResult]):
    """Warnings, and what is to know of them."""


TOOL = lookup_tool(
    name="get_warnings",
    title="Get warnings",
    description=(
        "Find warnings of the owner's sources: what goes wrong, how it shows, what it leads to"
        " and how to avoid it. Use it before something is done, or when something went wrong: by"
        " topic, or with query for a plan or a symptom of your own. For what to do instead use"
        " get_patterns, to choose between options get_decisions, for ways of working"
        " get_methodologies, and for what texts say about anything else search_kb. list_topics"
        " says what there is; get_chunk reads the passage behind a result. Cite source_title."
    ),
    input=In,
    output=Out,
    kind=WarningResult,
    item_name="title",
)

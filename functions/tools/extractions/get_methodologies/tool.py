"""Find ways of working that the owner's sources teach step by step."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Methodology
from shared.extractions.views import Answer, Attribution, ExtractionArguments, Identified


class In(ExtractionArguments):
    """Which methodologies."""


class MethodologyResult(Attribution, Methodology, Identified):
    """A way of working, step by step."""


class Out(Answer[MethodologyResult]):
    """Methodologies, and what is to know of them."""


TOOL = lookup_tool(
    name="get_methodologies",
    title="Get methodologies",
    description=(
        "Find ways of working that the owner's sources teach: the steps in their order with"
        " tips, what is needed before and what one has afterwards. Use it when a piece of work is"
        " to be planned or done: by topic, or with query for a goal of your own. For a single"
        " solution use get_patterns, to choose between options get_decisions, for what goes wrong"
        " get_warnings, and for what texts say about anything else search_kb. list_topics says"
        " what there is; get_chunk reads the passage behind a result. Cite source_title."
    ),
    input=In,
    output=Out,
    kind=MethodologyResult,
    item_name="name",
)

"""Find what the owner's sources weigh and recommend."""

from __future__ import annotations

from shared.extractions.lookup import lookup_tool
from shared.extractions.model import Decision
from shared.extractions.views import Answer, Attribution, ExtractionArguments, Identified


class In(ExtractionArguments):
    """Which decisions."""


class DecisionResult(Attribution, Decision, Identified):
    """A decision that a source weighs."""


class Out(Answer[DecisionResult]):
    """Decisions, and what is to know of them."""


TOOL = lookup_tool(
    name="get_decisions",
    title="Get decisions",
    description=(
        "Find decisions that the owner's sources weigh: the question, the options, what speaks"
        " for and against them, and what the author recommends. Use it when something is to be"
        " chosen: by topic, or with query for a question of your own. For proven solutions use"
        " get_patterns, for what goes wrong get_warnings, for ways of working get_methodologies,"
        " and for what texts say about anything else search_kb. list_topics says what there is;"
        " get_chunk reads the passage behind a result. Cite source_title."
    ),
    input=In,
    output=Out,
    kind=DecisionResult,
    item_name="question",
)

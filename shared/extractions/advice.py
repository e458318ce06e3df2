"""Explain an empty answer, and suggest what to ask instead."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.extractions.model import ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topics
from shared.text.suggestions import nearest_names

if TYPE_CHECKING:
    from shared.extractions.pages import ExtractionFilter
    from shared.extractions.topics import Topic
    from shared.runtime.context import Context

MAX_FREQUENT: Final = 100
"""The most frequent topics that are compared with an unknown one."""
MAX_WITH_SAME_START: Final = 50
"""The topics with the same first characters that are compared with an unknown one, too."""
_PREFIX_LENGTH: Final = 3
MAX_SUGGESTED: Final = 5
_PLURALS: Final = {
    ExtractionType.DECISION: "decisions",
    ExtractionType.PATTERN: "patterns",
    ExtractionType.WARNING: "warnings",
    ExtractionType.METHODOLOGY: "methodologies",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """What to tell the caller beside the results.

    Attributes:
        message: A sentence or two.
        topics: Existing topics like an unknown one, or the most frequent if none is like it; None
            if the topic exists.
    """

    message: str | None = None
    topics: list[str] | None = None


async def explain_no_results(filters: ExtractionFilter, ctx: Context) -> Advice:
    """Find out why a query has no results. Costs one Firestore round trip."""
    if filters.topic:
        return await _explain_topic(filters.topic, filters, ctx)
    if not await Extractions(ctx.database).page(filters.kind, None, None, 1):
        return Advice(_none_extracted(filters.kind))
    return Advice(_other_reason(filters))


async def _explain_topic(name: str, filters: ExtractionFilter, ctx: Context) -> Advice:
    topics = Topics(ctx.database)
    topic, frequent, with_same_start = await asyncio.gather(
        topics.get(name),
        topics.most_frequent(MAX_FREQUENT, filters.kind),
        topics.with_prefix(name[:_PREFIX_LENGTH], MAX_WITH_SAME_START),
    )
    if topic:
        return Advice(_explain_existing_topic(topic, filters))
    if not frequent:
        return Advice(_none_extracted(filters.kind), [])
    others = [other.name for other in (*frequent, *with_same_start) if other.count(filters.kind)]
    near = nearest_names(name, list(dict.fromkeys(others)), MAX_SUGGESTED)
    intro = "The nearest are" if near else "The most frequent are"
    suggested = near or others[:MAX_SUGGESTED]
    return Advice(
        f"There is no topic {name!r}. {intro} {', '.join(map(repr, suggested))}. Use another topic"
        " (list_topics lists all), or describe what you need in query and leave topic out.",
        suggested,
    )


def _explain_existing_topic(topic: Topic, filters: ExtractionFilter) -> str:
    if topic.count(filters.kind):
        return _other_reason(filters)
    others = [f"{n} with get_{_PLURALS[kind]}" for kind, n in topic.counts.items() if n]
    return f"There are no {_PLURALS[filters.kind]} about {topic.name!r}, but {', '.join(others)}."


def _other_reason(filters: ExtractionFilter) -> str:
    """Why nothing matches although the type, and the topic, have extractions."""
    kinds = _PLURALS[filters.kind]
    if not filters.source_id:
        return f"The {kinds} have no vectors to compare with yet. Leave query out."
    about = f" about {filters.topic!r}" if filters.topic else ""
    return f"This source has no {kinds}{about}. Leave source_id out to search all sources."


def _none_extracted(kind: ExtractionType) -> str:
    return (
        f"There are no {_PLURALS[kind]} yet: the job `extract` reads them out of passages with a"
        " language model, if one is configured (GENERATION_PROVIDER). Search the passages"
        " themselves with search_kb."
    )

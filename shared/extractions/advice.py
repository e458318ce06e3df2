"""Explains why a lookup of extractions found none, and suggests other arguments.

A lookup asks for one type of extraction, and may filter by a topic and a source.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.extractions.model import ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topics
from shared.text.suggestions import find_nearest_names

if TYPE_CHECKING:
    from shared.extractions.pages import ExtractionFilter
    from shared.extractions.topics import Topic
    from shared.runtime.context import Context

MAX_FREQUENT_TOPICS: Final = 100
"""An unknown topic is compared with this many of the most frequent topics."""
MAX_TOPICS_WITH_PREFIX: Final = 50
"""An unknown topic is also compared with this many topics that begin with the same characters. They
may be too rare to be among the most frequent."""
_PREFIX_LENGTH: Final = 3
"""This many first characters must be the same."""
MAX_SUGGESTIONS: Final = 5
"""At most this many topics are suggested."""
_PLURALS: Final = {
    ExtractionType.DECISION: "decisions",
    ExtractionType.PATTERN: "patterns",
    ExtractionType.WARNING: "warnings",
    ExtractionType.METHODOLOGY: "methodologies",
}
"""The tool that looks up extractions of a type is named `get_` and this plural."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice to a caller whose lookup found nothing.

    Attributes:
        message: A sentence or two, or None if there is nothing to explain.
        topics: Topics to use instead of an unknown topic: those with similar names, or else the
            most frequent ones. None if the topic exists or the call names none.
    """

    message: str | None = None
    topics: list[str] | None = None


async def explain_no_results(filters: ExtractionFilter, ctx: Context) -> Advice:
    """Advise a caller whose lookup found nothing. Costs one Firestore round trip."""
    if filters.topic:
        return await _explain_topic(filters.topic, filters, ctx)
    if not await Extractions(ctx.database).list_by_confidence(filters.type, None, None, 1):
        return Advice(_explain_missing_type(filters.type))
    return Advice(_explain_filters(filters))


async def _explain_topic(name: str, filters: ExtractionFilter, ctx: Context) -> Advice:
    """Advise a caller who filtered by a topic. Costs one Firestore round trip."""
    topics = Topics(ctx.database)
    topic, frequent_topics, topics_with_prefix = await asyncio.gather(
        topics.get(name),
        topics.list_most_frequent(MAX_FREQUENT_TOPICS, filters.type),
        topics.list_with_prefix(name[:_PREFIX_LENGTH], MAX_TOPICS_WITH_PREFIX),
    )
    if topic:
        return Advice(_explain_existing_topic(topic, filters))
    if not frequent_topics:
        return Advice(_explain_missing_type(filters.type), [])
    candidates = (*frequent_topics, *topics_with_prefix)
    names = [candidate.name for candidate in candidates if candidate.count_of(filters.type)]
    similar_names = find_nearest_names(name, list(dict.fromkeys(names)), MAX_SUGGESTIONS)
    intro = "The nearest are" if similar_names else "The most frequent are"
    suggestions = similar_names or names[:MAX_SUGGESTIONS]
    return Advice(
        f"There is no topic {name!r}. {intro} {', '.join(map(repr, suggestions))}. Use another"
        " topic (list_topics lists all), or describe what you need in query and leave topic out.",
        suggestions,
    )


def _explain_existing_topic(topic: Topic, filters: ExtractionFilter) -> str:
    """Explain why nothing matches, although the topic has extractions."""
    if topic.count_of(filters.type):
        return _explain_filters(filters)
    counts = [
        f"{count} with get_{_PLURALS[extraction_type]}"
        for extraction_type, count in topic.counts.items()
        if count
    ]
    return f"There are no {_PLURALS[filters.type]} about {topic.name!r}, but {', '.join(counts)}."


def _explain_filters(filters: ExtractionFilter) -> str:
    """Explain why nothing matches, although the type and the topic have extractions."""
    plural = _PLURALS[filters.type]
    if not filters.source_id:  # then only a query can be the reason
        return f"The {plural} have no vectors to compare with yet. Leave query out."
    about = f" about {filters.topic!r}" if filters.topic else ""
    return f"This source has no {plural}{about}. Leave source_id out to search all sources."


def _explain_missing_type(extraction_type: ExtractionType) -> str:
    """Explain why there are no extractions of a type at all."""
    return (
        f"There are no {_PLURALS[extraction_type]} here. Search the passages themselves with"
        " search_kb."
    )

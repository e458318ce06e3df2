"""Explains why a lookup of extractions has no results, and suggests other arguments."""

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

MAX_FREQUENT_TOPICS: Final = 100
"""An unknown topic is compared with this many of the most frequent topics."""
MAX_TOPICS_WITH_PREFIX: Final = 50
"""An unknown topic is also compared with this many topics that begin with the same characters."""
_PREFIX_LENGTH: Final = 3
MAX_SUGGESTIONS: Final = 5
_PLURALS: Final = {
    ExtractionType.DECISION: "decisions",
    ExtractionType.PATTERN: "patterns",
    ExtractionType.WARNING: "warnings",
    ExtractionType.METHODOLOGY: "methodologies",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice to the caller about the results.

    Attributes:
        message: A sentence or two.
        topics: Existing topics that are similar to an unknown one, or the most frequent topics if
            none is similar. None if the topic exists.
    """

    message: str | None = None
    topics: list[str] | None = None


async def explain_no_results(filters: ExtractionFilter, ctx: Context) -> Advice:
    """Return advice about a query without results. Costs one Firestore round trip."""
    if filters.topic:
        return await _explain_topic(filters.topic, filters, ctx)
    if not await Extractions(ctx.database).page(filters.kind, None, None, 1):
        return Advice(_explain_missing_type(filters.kind))
    return Advice(_explain_filters(filters))


async def _explain_topic(name: str, filters: ExtractionFilter, ctx: Context) -> Advice:
    topics = Topics(ctx.database)
    topic, frequent_topics, topics_with_prefix = await asyncio.gather(
        topics.get(name),
        topics.most_frequent(MAX_FREQUENT_TOPICS, filters.kind),
        topics.with_prefix(name[:_PREFIX_LENGTH], MAX_TOPICS_WITH_PREFIX),
    )
    if topic:
        return Advice(_explain_existing_topic(topic, filters))
    if not frequent_topics:
        return Advice(_explain_missing_type(filters.kind), [])
    candidates = (*frequent_topics, *topics_with_prefix)
    names = [candidate.name for candidate in candidates if candidate.count(filters.kind)]
    similar_names = nearest_names(name, list(dict.fromkeys(names)), MAX_SUGGESTIONS)
    intro = "The nearest are" if similar_names else "The most frequent are"
    suggestions = similar_names or names[:MAX_SUGGESTIONS]
    return Advice(
        f"There is no topic {name!r}. {intro} {', '.join(map(repr, suggestions))}. Use another"
        " topic (list_topics lists all), or describe what you need in query and leave topic out.",
        suggestions,
    )


def _explain_existing_topic(topic: Topic, filters: ExtractionFilter) -> str:
    if topic.count(filters.kind):
        return _explain_filters(filters)
    counts = [f"{count} with get_{_PLURALS[kind]}" for kind, count in topic.counts.items() if count]
    return f"There are no {_PLURALS[filters.kind]} about {topic.name!r}, but {', '.join(counts)}."


def _explain_filters(filters: ExtractionFilter) -> str:
    """Explain why nothing matches although extractions of the type and the topic exist."""
    kinds = _PLURALS[filters.kind]
    if not filters.source_id:
        return f"The {kinds} have no vectors to compare with yet. Leave query out."
    about = f" about {filters.topic!r}" if filters.topic else ""
    return f"This source has no {kinds}{about}. Leave source_id out to search all sources."


def _explain_missing_type(kind: ExtractionType) -> str:
    return (
        f"There are no {_PLURALS[kind]} yet: the job `extract` reads them out of passages with a"
        " language model, if one is configured (GENERATION_PROVIDER). Search the passages"
        " themselves with search_kb."
    )

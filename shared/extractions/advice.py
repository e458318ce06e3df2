"""What to tell whoever found nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.extractions.model import ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topics
from shared.text.suggestions import nearest_names

if TYPE_CHECKING:
    from shared.extractions.pages import Wanted
    from shared.extractions.topic_names import Topic
    from shared.runtime.context import Context

MOST: Final = 100
"""Topics of most extractions that are compared with an unknown one."""
BESIDE: Final = 50
"""Topics that begin as it does and are compared with it, too."""
_BEGINNING: Final = 3
"""Characters by which topics begin alike."""
SUGGESTED: Final = 5
_PLURALS: Final = {
    ExtractionType.DECISION: "decisions",
    ExtractionType.PATTERN: "patterns",
    ExtractionType.WARNING: "warnings",
    ExtractionType.METHODOLOGY: "methodologies",
}
"""What many of a type are called, by the tools' names too."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to tell.

    Attributes:
        message: It, in words.
        topics: Known topics that are like an unknown one, or the commonest where none is; None
            where the topic is known.
    """

    message: str | None = None
    topics: list[str] | None = None


async def why_nothing(wanted: Wanted, ctx: Context) -> Advice:
    """Find out why nothing was found. One round trip."""
    if wanted.topic:
        return await _of_topic(wanted.topic, wanted, ctx)
    if not await Extractions(ctx.database).page(wanted.kind, None, None, 1):
        return Advice(_none(wanted.kind))
    return Advice(_of_rest(wanted))


async def _of_topic(name: str, wanted: Wanted, ctx: Context) -> Advice:
    topics = Topics(ctx.database)
    known, most, beside = await asyncio.gather(
        topics.get(name),
        topics.most(MOST, wanted.kind),
        topics.beginning(name[:_BEGINNING], BESIDE),
    )
    if known:
        return Advice(_of_known(known, wanted))
    if not most:
        return Advice(_none(wanted.kind), [])
    others = [each.name for each in (*most, *beside) if each.count(wanted.kind)]
    near = nearest_names(name, list(dict.fromkeys(others)), SUGGESTED)
    told = "Nearest:" if near else "None is like it; the commonest are"
    suggested = near or others[:SUGGESTED]
    return Advice(
        f"There is no topic {name!r}. {told} {_quoted(suggested)}. Take another one (list_topics"
        " lists all), or leave topic out and say in query what you need.",
        suggested,
    )


def _of_known(topic: Topic, wanted: Wanted) -> str:
    if topic.count(wanted.kind):
        return _of_rest(wanted)
    others = [f"{n} by get_{_PLURALS[kind]}" for kind, n in topic.counts.items() if n]
    named = _PLURALS[wanted.kind]
    return f"There are no {named} about {topic.name!r}; there are {', '.join(others)}."


def _of_rest(wanted: Wanted) -> str:
    """What to do where there are some of this type, and of this topic."""
    named = _PLURALS[wanted.kind]
    if not wanted.source_id:
        return f"The {named} here have no vectors to compare with yet. Leave query out."
    about = f" about {wanted.topic!r}" if wanted.topic else ""
    return f"No {named}{about} are known from this source. Leave source_id out for all sources."


def _none(kind: ExtractionType) -> str:
    """What to do where there are none of a type at all."""
    return (
        f"There are no {_PLURALS[kind]} yet: the job `extract` reads them out of passages with a"
        " language model, where one is configured (GENERATION_PROVIDER). Search the passages"
        " themselves with search_kb."
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))

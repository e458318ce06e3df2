"""List what decisions, patterns, warnings and methodologies are about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.extractions.model import ExtractionType
from shared.extractions.topic_names import folded, normal_topic
from shared.extractions.topics import Topics, place
from shared.runtime.pagination import (
    CursorCount,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.extractions.topic_names import Topic as Counted
    from shared.extractions.topics import Place
    from shared.runtime.context import Context

EMPTY: Final = (
    "There are no topics yet: the job `extract` reads decisions, patterns, warnings and"
    " methodologies out of passages with a language model, where one is configured"
    " (GENERATION_PROVIDER). For topics of all passages use list_clusters."
)
NO_SUCH: Final = "No topic begins like this. Leave prefix out to list them all."
MOST_BEGINNING: Final = 300
"""Topics that begin alike and are put in order here."""
TOO_MANY: Final = (
    "Only the first 300 by name that begin like this are listed. Give more of the name."
)
_PLACE: Final = TypeAdapter(tuple[CursorCount, DocumentId])
"""Count and key of the last topic that was shown."""


class In(Arguments):
    """Which topics, and from where on."""

    prefix: str = Field(
        default="", max_length=80, description="How the topics begin; all by default."
    )
    kind: ExtractionType | None = Field(
        default=None,
        description="Only topics with something of this kind, and ordered by it; all by default.",
        validation_alias=AliasChoices("kind", "type"),
    )
    limit: int = Field(default=100, ge=1, le=300, description="How many at most.")
    cursor: CursorText | None = Field(
        default=None,
        description="next_cursor of the page before, with the same prefix and kind.",
    )


class Topic(Result):
    """A topic."""

    name: str = Field(description="Its name, for the argument topic of the tools named below.")
    decisions: int = Field(description="How many decisions are about it: get_decisions.")
    patterns: int = Field(description="How many patterns: get_patterns.")
    warnings: int = Field(description="How many warnings: get_warnings.")
    methodologies: int = Field(description="How many methodologies: get_methodologies.")
    total: int = Field(description="How many of all four.")


class Out(Result):
    """A page of topics."""

    topics: list[Topic] = Field(description="The topics, those with most first.")
    next_cursor: str | None = Field(description="Where the list goes on; missing at its end.")
    message: str | None = Field(description="What to know of the list, if anything.")


async def list_topics(args: In, ctx: Context) -> Out:
    """List topics: one round trip and limit + 1 documents; those of a beginning, up to 300."""
    after = decode_cursor(args, args.cursor, _PLACE)
    if args.prefix.strip():
        found, cut = await _beginning(args, after, ctx)
    else:
        found, cut = await Topics(ctx.database).most(args.limit + 1, args.kind, after), False
    shown = fit_page([_topic(each) for each in found[: args.limit]])
    end = found[len(shown) - 1] if len(shown) < len(found) else None
    empty = NO_SUCH if args.prefix.strip() else EMPTY
    return Out(
        topics=shown,
        next_cursor=encode_cursor(args, place(end, args.kind)) if end else None,
        message=TOO_MANY if cut else None if found or args.cursor else empty,
    )


async def _beginning(args: In, after: Place | None, ctx: Context) -> tuple[list[Counted], bool]:
    """The topics that begin so, in their order, and whether there are more than are looked at.

    What begins like another name of a topic, and is all of it, finds the topic too.
    """
    names = {folded(args.prefix), normal_topic(args.prefix, ctx.settings.topic_aliases)} - {""}
    blocks = await asyncio.gather(
        *(Topics(ctx.database).beginning(name, MOST_BEGINNING + 1) for name in names)
    )
    topics = {each.name: each for block in blocks for each in block[:MOST_BEGINNING]}
    counted = [each for each in topics.values() if each.count(args.kind)]
    ordered = sorted(counted, key=lambda each: place(each, args.kind), reverse=True)
    rest = [each for each in ordered if after is None or place(each, args.kind) < tuple(after)]
    return rest, any(len(block) > MOST_BEGINNING for block in blocks)


def _topic(topic: Counted) -> Topic:
    return Topic(
        name=topic.name,
        decisions=topic.counts[ExtractionType.DECISION],
        patterns=topic.counts[ExtractionType.PATTERN],
        warnings=topic.counts[ExtractionType.WARNING],
        methodologies=topic.counts[ExtractionType.METHODOLOGY],
        total=topic.total,
    )


TOOL = Tool(
    name="list_topics",
    title="List topics of extractions",
    description=(
        "List the topics of the decisions, patterns, warnings and methodologies that were read out"
        " of the owner's sources, those with most first, and how many of each kind they have. Use"
        " it to see what get_decisions, get_patterns, get_warnings and get_methodologies can answer"
        " about, or to find the right name for their topic. For themes of all passages use"
        " list_clusters; for tags of coding problems list_tags."
    ),
    input=In,
    output=Out,
    run=list_topics,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    settings=("topic_aliases",),
)

"""List the topics of decisions, patterns, warnings and methodologies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.extractions.model import ExtractionType
from shared.extractions.topic_names import canonicalize_topic, fold
from shared.extractions.topics import Topics, make_topic_cursor
from shared.runtime.pagination import (
    CursorCount,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import DocumentId, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.extractions.topics import Topic, TopicCursor
    from shared.runtime.context import Context

NO_TOPICS: Final = "There are no topics here. For groups of similar passages use list_clusters."
NO_MATCH: Final = "No topic starts with this prefix. Leave prefix out to list all topics."
MAX_WITH_PREFIX: Final = 300
"""The maximum number of topics with a prefix that are read and sorted. Others are left out."""
TRUNCATED: Final = (
    f"Only the first {MAX_WITH_PREFIX} topics by name that start with this prefix are listed. Use a"
    " longer prefix."
)
_CURSOR: Final = TypeAdapter(tuple[CursorCount, DocumentId])
"""The cursor contains the count and the document id of the previous page's last topic."""


class In(PagedArguments):
    """Which topics to list."""

    prefix: str = Field(default="", max_length=80, description="How the names start.")
    kind: ExtractionType | None = Field(
        default=None,
        description="Only these, the most frequent first.",
        validation_alias=AliasChoices("kind", "type"),
    )
    limit: int = Field(default=100, ge=1, le=300, description="Maximum number of topics.")


class TopicResult(Result):
    """A topic in the list."""

    name: str = Field(description="Its name, for the argument topic of the tools named below.")
    decisions: int = Field(description="How many decisions are about it: get_decisions.")
    patterns: int = Field(description="How many patterns: get_patterns.")
    warnings: int = Field(description="How many warnings: get_warnings.")
    methodologies: int = Field(description="How many methodologies: get_methodologies.")
    total: int = Field(description="How many in all.")


class Out(Result):
    """A page of topics."""

    topics: list[TopicResult] = Field(description="The topics, most extractions first.")
    next_cursor: str | None = Field(
        description="Send it as cursor for the next page; missing on the last page."
    )
    message: str | None = Field(description="A note on this list, if any.")


async def list_topics(args: In, ctx: Context) -> Out:
    """List topics. Costs one round trip.

    Reads limit + 1 topics. With a prefix, reads up to 301 topics that start with it. If the prefix
    is an alias of a name, also reads up to 301 topics that start with the name.
    """
    after = decode_cursor(args, args.cursor, _CURSOR)
    has_prefix = bool(args.prefix.strip())
    is_truncated = False
    if has_prefix:
        topics, is_truncated = await _load_by_prefix(args, after, ctx)
    else:
        topics = await Topics(ctx.database).list_most_frequent(args.limit + 1, args.kind, after)
    page = fit_page([_to_result(topic) for topic in topics[: args.limit]], args.max_tokens)
    last_listed = topics[len(page) - 1] if len(page) < len(topics) else None
    message = TRUNCATED if is_truncated else None
    if not topics and not args.cursor:
        message = message or (NO_MATCH if has_prefix else NO_TOPICS)
    next_cursor = (
        encode_cursor(args, make_topic_cursor(last_listed, args.kind)) if last_listed else None
    )
    return Out(topics=page, next_cursor=next_cursor, message=message)


async def _load_by_prefix(
    args: In, after: TopicCursor | None, ctx: Context
) -> tuple[list[Topic], bool]:
    """Load the topics that start with a prefix or, if the prefix is an alias, with its name.

    Returns:
        The topics after the cursor, in order, and whether topics are missing because too many start
        with the prefix.
    """
    prefixes = {fold(args.prefix), canonicalize_topic(args.prefix, ctx.settings.topic_aliases)} - {
        ""
    }
    blocks = await asyncio.gather(
        *(Topics(ctx.database).list_with_prefix(name, MAX_WITH_PREFIX + 1) for name in prefixes)
    )
    topics = {topic.name: topic for block in blocks for topic in block[:MAX_WITH_PREFIX]}
    topics_of_kind = [topic for topic in topics.values() if topic.count_of(args.kind)]
    ordered = sorted(
        topics_of_kind, key=lambda topic: make_topic_cursor(topic, args.kind), reverse=True
    )
    following = [
        topic
        for topic in ordered
        if after is None or make_topic_cursor(topic, args.kind) < tuple(after)
    ]
    return following, any(len(block) > MAX_WITH_PREFIX for block in blocks)


def _to_result(topic: Topic) -> TopicResult:
    return TopicResult(
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
        "List the topics of decisions, patterns, warnings and methodologies, with how many each"
        " has, for get_decisions and the like. For groups of similar passages use list_clusters."
    ),
    input=In,
    output=Out,
    run=list_topics,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    settings=("topic_aliases",),
)

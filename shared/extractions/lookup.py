"""Looks up extractions of one type, formats them as text, and declares the tools that do so.

An extraction is a decision, pattern, warning or methodology found in a passage, with its topics.
"""

from __future__ import annotations

import asyncio
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.core.caller import Tier
from shared.core.errors import InvalidInput, NotFound
from shared.extractions.advice import Advice, explain_no_results
from shared.extractions.model import Step
from shared.extractions.pages import ExtractionFilter, load_page
from shared.extractions.repository import MAX_NEAREST, Extractions
from shared.extractions.topic_names import canonicalize_topic
from shared.extractions.views import (
    Attribution,
    ExtractionArguments,
    LookupAnswer,
    LookupMetadata,
    ResultT,
    WithId,
    to_result,
)
from shared.knowledge.source_repository import Sources
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import encode_cursor, fit_page
from shared.runtime.tool import Effect, Tool
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.extractions.pages import ExtractionPage, PageItem
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

ArgumentsT = TypeVar("ArgumentsT", bound=ExtractionArguments)
AnswerT = TypeVar("AnswerT", bound=LookupAnswer[Any])

_INDENT: Final = "   "
_COMMON_FIELDS: Final = {*Attribution.model_fields, *WithId.model_fields}
"""These fields of a result do not belong to its content."""
ALL_TOPICS: Final = "all"
"""The value of `metadata.query` if the call names no topic."""
EXHAUSTED_MESSAGE: Final = (
    f"These were the {MAX_NEAREST:,} nearest results. To see others, filter by topic or source_id,"
    " or make the query more specific."
)
"""The message with the last page if more extractions may match, but cannot be shown."""


def lookup_tool(  # noqa: PLR0913 - a declaration
    *,
    name: str,
    title: str,
    description: str,
    input: type[ArgumentsT],  # noqa: A002 - as `Tool` calls it
    output: type[AnswerT],
    result_type: type[Attribution],
) -> Tool[ArgumentsT, AnswerT]:
    """Declare a tool that looks up extractions of one type."""

    async def run(args: ArgumentsT, ctx: Context) -> AnswerT:
        """Look up extractions, see `look_up`. Costs two round trips, or three with a query."""
        return output(**await look_up(args, result_type, ctx))

    return Tool(
        name=name,
        title=title,
        description=description,
        input=input,
        output=output,
        run=run,
        text=format_answer,
        effect=Effect.READ,
        tier=Tier.PUBLIC,
        capabilities=frozenset({Capability.EMBEDDING}),
        settings=("topic_aliases",),
    )


async def look_up(
    args: ExtractionArguments, result_type: type[ResultT], ctx: Context
) -> dict[str, Any]:
    """Look up extractions of one type, and return the fields of a `LookupAnswer`.

    Costs two round trips, or three with a query, and one fewer with a source_id. Explaining an
    empty result costs one more. Reads limit + 1 extractions, and each of their sources once. With a
    query, the extractions of the previous pages are read again. Without one, the first of several
    pages costs a count, and two round trips even with a source_id.

    Raises:
        InvalidInput: The topic contains no words, or the cursor belongs to another call.
        NotFound: The source does not exist.
        Unavailable: The embedding provider or the database is down.
        Conflict: The stored embeddings were made with another model.
    """
    topic = _resolve_topic(args, ctx)
    extraction_filter = ExtractionFilter(result_type.type, topic, args.source_id)
    page, source = await asyncio.gather(
        load_page(extraction_filter, args, ctx), _load_source(args.source_id, ctx)
    )
    titles, total = await asyncio.gather(
        _load_titles(page.items, source, ctx), _count_total(extraction_filter, page, args, ctx)
    )
    # A job will delete the extractions whose source was deleted. Until then, they are skipped.
    items = [item for item in page.items if item.extraction.source_id in titles]
    results = fit_page(
        [
            to_result(
                result_type, item.extraction, titles[item.extraction.source_id], item.similarity
            )
            for item in items
        ],
        args.max_tokens,
    )
    is_cut = len(results) < len(items)  # by max_tokens: the next page begins with what was cut
    next_position = items[len(results) - 1].position if is_cut else page.next_position
    advice = Advice()
    if not page.items and args.cursor is None:
        advice = await explain_no_results(extraction_filter, ctx)
    elif page.exhausted and not is_cut:
        advice = Advice(EXHAUSTED_MESSAGE)
    metadata = LookupMetadata(
        # By contract, this is the topic to filter by, not the argument `query`.
        query=topic or ALL_TOPICS,
        sources_cited=list(dict.fromkeys(result.source_title for result in results)),
        result_count=len(results),
        total=total if next_position else None,
        search_type="filtered" if args.query is None else "semantic",
        next_cursor=encode_cursor(args, next_position) if next_position else None,
        nearest_topics=advice.topics,
        message=advice.message,
    )
    return {"results": results, "metadata": metadata}


async def _count_total(
    filters: ExtractionFilter, page: ExtractionPage, args: ExtractionArguments, ctx: Context
) -> int | None:
    """Count the extractions on all pages, on the first page without a query."""
    if args.query or args.cursor:
        return None
    if page.next_position is None:
        return len(page.items)
    return await Extractions(ctx.database).count(filters.type, filters.topic, filters.source_id)


def _resolve_topic(args: ExtractionArguments, ctx: Context) -> str | None:
    """Return the canonical name of the topic to filter by, or None if the call names none.

    Raises:
        InvalidInput: The topic contains no words.
    """
    if args.topic is None:
        return None
    topic = canonicalize_topic(args.topic, ctx.settings.topic_aliases)
    if not topic:
        raise InvalidInput(
            f"The topic {args.topic!r} contains no words. Use a topic from list_topics, or leave it"
            " out.",
            details={"topic": "contains no words"},
        )
    return topic


async def _load_source(source_id: str | None, ctx: Context) -> StoredSource | None:
    """Load the source to filter by, if any. Costs at most one Firestore round trip.

    Raises:
        NotFound: The source does not exist.
    """
    if source_id is None:
        return None
    source = await Sources(ctx.database).get(source_id)
    if source is None:
        raise NotFound(
            f"There is no source {source_id}. Find the ids of sources with list_sources.",
            details={"source_id": source_id},
        )
    return source


async def _load_titles(
    items: Sequence[PageItem], source: StoredSource | None, ctx: Context
) -> Mapping[str, str]:
    """Load the titles of the extractions' sources, by id. Sources that do not exist are left out.

    Costs at most one Firestore round trip, and none if the source to filter by is given.
    """
    if source:
        return {source.source_id: source.title}
    source_ids = list(dict.fromkeys(item.extraction.source_id for item in items))
    cited_sources = await Sources(ctx.database).get_all(source_ids)
    return {cited.source_id: cited.title for cited in cited_sources}


def format_answer(answer: LookupAnswer[ResultT]) -> str:
    """Format an answer as text: its message, its extractions, and how to get the next page."""
    paragraphs = [answer.metadata.message] if answer.metadata.message else []
    if answer.results:
        count = format_count(answer.metadata.total or answer.metadata.result_count, "result")
        if answer.metadata.total:
            count = f"{answer.metadata.result_count} of {count}"
        order = "surest" if answer.metadata.search_type == "filtered" else "nearest"
        paragraphs.append(f"{count}, the {order} first:")
    paragraphs += [
        f"{number}. {format_extraction(result)}"
        for number, result in enumerate(answer.results, start=1)
    ]
    if cursor := answer.metadata.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {cursor}")
    return "\n\n".join(paragraphs)


def format_extraction(result: Attribution) -> str:
    """Format an extraction as text under its name, which is the first field of its content.

    The other lines are indented, so that text inside an extraction cannot be mistaken for the start
    of another.
    """
    names = [name for name in type(result).model_fields if name not in _COMMON_FIELDS]
    (_, heading), *others = [(name, value) for name in names if (value := getattr(result, name))]
    lines = [line for name, value in others for line in _format_field(name, value)]
    lines.append(f"Topics: {', '.join(result.topics)}")
    lines.append(f'Quote from {result.source_title} (ID {result.chunk_id}): "{result.quote}"')
    body = indent("\n".join(lines), _INDENT)
    return f"{' '.join(heading.split())}\n{body}"


def _format_field(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of a field: its name as a label, and its text or the entries of its list."""
    label = name.replace("_", " ").capitalize()
    if isinstance(value, str):
        yield f"{label}: {value}" if "\n" not in value else f"{label}:\n{value}"
        return
    yield f"{label}:"
    for item in value:
        if isinstance(item, Step):
            yield f"{item.order}. {item.title}: {item.description}"
            yield from (f"   - {tip}" for tip in item.tips)
        else:
            yield f"- {item}"

"""What the four tools over extractions do, each for its type."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.core.caller import Tier
from shared.core.errors import InvalidInput, NotFound
from shared.extractions.advice import Advice, why_nothing
from shared.extractions.pages import Wanted, page_of
from shared.extractions.topic_names import normal_topic
from shared.extractions.views import Attribution, ExtractionArguments, Metadata, ResultT, result_of
from shared.knowledge.source_repository import Sources
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import encode_cursor, fit_page
from shared.runtime.schemas import Result
from shared.runtime.tool import Effect, Links, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.extractions.pages import Found, Page
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

ArgumentsT = TypeVar("ArgumentsT", bound=ExtractionArguments)
OutT = TypeVar("OutT", bound=Result)

ALL: Final = "all"
"""What stands for the topic where there is none."""
EXHAUSTED: Final = (
    "The 1,000 nearest have been shown. To see others, narrow by topic or source_id, or ask more"
    " precisely."
)


def lookup_tool(  # noqa: PLR0913 - a declaration
    *,
    name: str,
    title: str,
    description: str,
    input: type[ArgumentsT],  # noqa: A002 - as `Tool` calls it
    output: type[OutT],
    kind: type[Attribution],
    item_name: str,
) -> Tool[ArgumentsT, OutT]:
    """Declare a tool that looks up extractions of one type.

    Args:
        name: As in `Tool`, and so the next four.
        title: What people see.
        description: For the model.
        input: What it takes.
        output: `Answer[kind]`.
        kind: What a result is.
        item_name: The field of a result that names it to people.
    """

    async def run(args: ArgumentsT, ctx: Context) -> OutT:
        """Look them up: two round trips, three with a query (see `look_up`)."""
        return output(**await look_up(args, kind, ctx))

    return Tool(
        name=name,
        title=title,
        description=description,
        input=input,
        output=output,
        run=run,
        effect=Effect.READ,
        tier=Tier.PUBLIC,
        links=Links(items="results", uri="carrel://chunk/{chunk_id}", name=item_name),
        capabilities=frozenset({Capability.EMBEDDING}),
        settings=("topic_aliases",),
    )


async def look_up(args: ExtractionArguments, kind: type[ResultT], ctx: Context) -> dict[str, Any]:
    """The fields of an `Answer` with the results of one kind.

    Two round trips, three with a query, and one less with a source_id; where nothing is found, one
    or two more to say why. It reads limit + 1 extractions, with a query also those that were shown
    before, and each of their sources once.

    Raises:
        InvalidInput: The topic is no word, or the cursor belongs to another call.
        NotFound: There is no such source.
        Unavailable: The embedding provider is down, or the database.
        Conflict: The database is embedded with another model.
    """
    wanted = Wanted(kind.type, _topic(args, ctx), args.source_id)
    page, named = await asyncio.gather(page_of(wanted, args, ctx), _source(args.source_id, ctx))
    titles = await _titles(page.found, named, ctx)
    # Of a source that was just deleted, what it said is on its way out.
    kept = [each for each in page.found if each.extraction.source_id in titles]
    results = fit_page(
        [
            result_of(kind, each.extraction, titles[each.extraction.source_id], each.similarity)
            for each in kept
        ]
    )
    end = page.end if len(results) == len(kept) else kept[len(results) - 1].position
    empty = not page.found and args.cursor is None
    told = await why_nothing(wanted, ctx) if empty else Advice(_exhausted(page, end))
    metadata = Metadata(
        query=wanted.topic or ALL,
        sources_cited=list(dict.fromkeys(each.source_title for each in results)),
        result_count=len(results),
        search_type="filtered" if args.query is None else "semantic",
        next_cursor=encode_cursor(args, end) if end else None,
        nearest_topics=told.topics,
        message=told.message,
    )
    return {"results": results, "metadata": metadata}


def _topic(args: ExtractionArguments, ctx: Context) -> str | None:
    if args.topic is None:
        return None
    topic = normal_topic(args.topic, ctx.settings.topic_aliases)
    if not topic:
        raise InvalidInput(
            f"The topic {args.topic!r} holds no word. Take one of list_topics, or leave it out.",
            details={"topic": "holds no word"},
        )
    return topic


async def _source(source_id: str | None, ctx: Context) -> StoredSource | None:
    """The source that was asked for, if one was. One round trip, or none."""
    if source_id is None:
        return None
    source = await Sources(ctx.database).get(source_id)
    if source is None:
        raise NotFound(
            f"There is no source {source_id}. Find those that there are with list_sources.",
            details={"source_id": source_id},
        )
    return source


async def _titles(
    found: Sequence[Found], named: StoredSource | None, ctx: Context
) -> Mapping[str, str]:
    """The titles of the sources that there are. One round trip, or none."""
    if named:
        return {named.source_id: named.title}
    wanted = list(dict.fromkeys(each.extraction.source_id for each in found))
    return {each.source_id: each.title for each in await Sources(ctx.database).get_all(wanted)}


def _exhausted(page: Page, end: object) -> str | None:
    return EXHAUSTED if page.exhausted and end is None else None

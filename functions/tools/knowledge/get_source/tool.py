"""Read one source: what it is, and its passages in their order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.core.errors import Conflict, NotFound
from shared.knowledge.chunk_repository import ChunkLists
from shared.knowledge.source_repository import Sources
from shared.knowledge.views import SourceSummary
from shared.runtime.pagination import (
    CursorCount,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Links, ResourceTemplate, Tool
from shared.text.snippets import snippet

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context

    Position = tuple[str, str, int]

_POSITION: Final = TypeAdapter(tuple[DocumentId, DocumentId, CursorCount])
"""The last chunk that was shown, the one that came after it, and where the last one stood."""


class In(Arguments):
    """Which source, and which of its passages."""

    source_id: DocumentId = Field(
        description="The source's id, as search_kb and list_sources return it.",
        validation_alias=AliasChoices("source_id", "id"),
    )
    detail: Literal["lean", "full"] = Field(
        default="lean", description="`lean`: excerpts and summaries; `full`: the whole text."
    )
    limit: int = Field(default=20, ge=1, le=50, description="How many passages at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, with the same source_id."
    )


class Passage(Result):
    """A passage of the source."""

    chunk_id: str = Field(description="Its id, for get_chunk.")
    chunk_info: str = Field(description="Its place in the source: 2/5 is the second of five.")
    text: str = Field(description="How it begins; with detail full, its whole text.")
    tags: list[str] = Field(description="Tags of the source and of the highlight.")
    date: str | None = Field(
        description="When it was highlighted, else when it was put in: YYYY-MM-DD, in UTC."
    )
    summary: str | None = Field(description="The summary of its knowledge card, once one was made.")
    takeaways: list[str] = Field(description="What to remember of it, with detail full.")
    readwise_url: str | None = Field(description="The highlight, or its source, in Readwise.")
    highlight_url: str | None = Field(description="Its place in the original.")


class Out(SourceSummary):
    """A source with a page of its passages."""

    chunks: list[Passage] = Field(description="Its passages, in the order of the source.")
    next_cursor: str | None = Field(description="Where the passages go on; missing at their end.")


async def get_source(args: In, ctx: Context) -> Out:
    """Read a source: one round trip, two with a cursor; limit + 2 documents, 4 with a cursor."""
    position = decode_cursor(args, args.cursor, _POSITION)
    source, chunks = await asyncio.gather(
        Sources(ctx.database).get(args.source_id), _chunks(args, position, ctx)
    )
    if source is None:
        raise NotFound(
            f"There is no source {args.source_id}. Find those that there are with list_sources.",
            details={"source_id": args.source_id},
        )
    passages = fit_page([_passage(chunk, args.detail) for chunk in chunks[: args.limit]])
    return Out.of(
        source,
        source=source.origin,
        chunks=passages,
        next_cursor=_next(args, chunks, len(passages)),
    )


async def _chunks(args: In, shown: Position | None, ctx: Context) -> list[Chunk]:
    """The chunks of a page, and one more if there is one."""
    first = 1
    if shown:
        last, following, position = shown
        present = await ChunkLists(ctx.database).positions([last, following])
        first = _first(present.get(last), present.get(following), position)
    return await ChunkLists(ctx.database).of_source(args.source_id, args.limit + 1, first)


def _first(last: int | None, following: int | None, position: int) -> int:
    """Where a page begins, though the source was edited since the one before ended.

    Args:
        last: Where the last chunk that was shown stands now; None if it is gone.
        following: Where the one that came after it stands now.
        position: Where the last one stood.

    Raises:
        Conflict: Both are gone: there is no telling how far the reader came.
    """
    if last is not None:
        return last + 1
    if following is not None:
        # What stands in the place of the last one now was never shown.
        return min(position, following)
    raise Conflict(
        "The source was edited where this page begins. Call get_source again without the cursor."
    )


def _next(args: In, chunks: list[Chunk], shown: int) -> str | None:
    if shown >= len(chunks):
        return None
    last, following = chunks[shown - 1], chunks[shown]
    return encode_cursor(args, [last.chunk_id, following.chunk_id, last.position])


def _passage(chunk: Chunk, detail: Literal["lean", "full"]) -> Passage:
    card, full = chunk.knowledge_card, detail == "full"
    return Passage.of(
        chunk,
        text=chunk.content if full else snippet(chunk.content),
        takeaways=card.takeaways if card and full else [],
    )


TOOL = Tool(
    name="get_source",
    title="Get a source",
    description=(
        "Read one book, article or document of the knowledge base: its title, author, tags and"
        " links, and its passages in their order, with the summaries of their knowledge cards. Use"
        " it to go through a whole source, or to read what surrounds a hit of search_kb. It needs"
        " a source_id: list_sources finds sources by author, category or tag, search_kb passages"
        " by what they say. To read one passage, get_chunk is enough."
    ),
    input=In,
    output=Out,
    run=get_source,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    resource=ResourceTemplate(
        uri="carrel://source/{source_id}",
        name="source",
        title="Source",
        description="A book, article or document, and its first passages.",
    ),
    links=Links(items="chunks", uri="carrel://chunk/{chunk_id}", name="chunk_info"),
)

"""Read a source: its texts in order, each once."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.core.dates import format_day
from shared.core.errors import Conflict, NotFound
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.notes_about import MAX_NOTES, to_note_summaries
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.source import may_edit
from shared.knowledge.source_repository import Sources
from shared.knowledge.views import DATE, MAX_LINKS, LinkedSource, NoteSummary, SourceSummary
from shared.runtime.pagination import (
    CursorCount,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import FOR_APPS, DocumentId, Result, SourceId
from shared.runtime.tool import Effect, ResourceTemplate, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import NoteFields
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

    Position = tuple[str, str, int]

DEFAULT_TOKENS: Final = 4_000
"""The default of `max_tokens`: 12 kB, for a source should be read in one call, or in few."""
_POSITION: Final = TypeAdapter(tuple[DocumentId, DocumentId, CursorCount])
"""The shape of a cursor: the id of a page's last chunk, the id of the chunk after it, and the
position of the last chunk."""


class In(PagedArguments):
    """A source and a page of its passages."""

    source_id: SourceId = Field(
        description="From search_kb.",
        validation_alias=AliasChoices("source_id", "id"),
    )
    limit: int = Field(default=50, ge=1, le=50, description="Maximum number of passages.")


class SourcePassage(Result):
    """A passage of the source."""

    chunk_id: str = Field(description="Its id, for get_chunk.")
    chunk_info: str = Field(
        description="Its place in the source: 2/5, second of five.", json_schema_extra=FOR_APPS
    )
    text: str = Field(description="Its text, without what the passage before it has already said.")
    tags: list[str] | None = Field(description="Tags that the source does not have.")
    origin_tags: list[str] | None = Field(
        description="If these were edited, those of its origin.", json_schema_extra=FOR_APPS
    )
    revision: int | None = Field(
        description="Its revision, to edit its tags by edit_source; missing if never edited."
    )
    date: str | None = Field(description=DATE)
    summary: str | None = Field(
        description="Summary of its knowledge card, if any.", json_schema_extra=FOR_APPS
    )
    takeaways: list[str] | None = Field(
        description="Its main points, if it has a card.", json_schema_extra=FOR_APPS
    )
    address: str | None = Field(description="URL of the passage.")
    readwise_url: str | None = Field(
        description="The highlight in Readwise.", json_schema_extra=FOR_APPS
    )
    highlight_url: str | None = Field(
        description="Its place in the original.", json_schema_extra=FOR_APPS
    )
    page: int | None = Field(description="The page of the original on which it begins.")
    chapter: str | None = Field(description="The chapter in which it begins.")
    location: str | None = Field(description="Its Kindle location, or another position.")
    notes: list[NoteSummary] | None = Field(description="Notes about it, corrections first.")


class Out(SourceSummary):
    """A source with a page of its passages."""

    chunks: list[SourcePassage] = Field(description="Its passages, in the order of the source.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")
    revision: int = Field(
        description="Its revision, to change it by edit_source, or a note by save_note; 0 if it was"
        " never edited."
    )
    editable: list[str] = Field(
        description="What the caller may change by edit_source, or of a note by save_note. A text"
        " that is missing here is corrected by save_note with about and corrects."
    )
    edited: list[str] = Field(
        description="Fields that edit_source set, in place of what its file or library says."
    )
    about_id: str | None = Field(description="Of a note, the passage or source that it is about.")
    corrects: bool | None = Field(description="true if the note corrects that.")
    saved_with: str | None = Field(description="The client that last saved the note, if known.")
    unread: str | None = Field(
        description="What its file has that could not be read as text, such as scanned pages."
    )
    markdown: bool | None = Field(
        description="true if its text is Markdown.", json_schema_extra=FOR_APPS
    )
    text: str | None = Field(
        description="Of a note, the whole text; on the first page only.", json_schema_extra=FOR_APPS
    )
    notes: list[NoteSummary] = Field(
        description="Notes about the source and about passages of other pages, corrections first;"
        " on the first page only."
    )
    links_to: list[LinkedSource] = Field(
        description="Sources that its text links to; on the first page only."
    )
    linked_from: list[LinkedSource] = Field(
        description="Sources whose text links to it; on the first page only."
    )


async def get_source(args: In, ctx: Context) -> Out:
    """Read a source.

    Costs one round trip, and another if it links to sources. It reads limit + 2 documents,
    MAX_NOTES notes, and MAX_LINKS sources in each direction. With a cursor it costs two round trips
    and limit + 5 documents.
    """
    position = decode_cursor(args, args.cursor, _POSITION)
    (source, note), (previous, chunks), notes, linked_from = await asyncio.gather(
        Sources(ctx.database).get_with_note(args.source_id),
        _load_chunks(args, position, ctx),
        Chunks(ctx.database).load_notes_about("about_source_id", [args.source_id], MAX_NOTES),
        _load_linked_from(args, ctx),
    )
    if source is None:
        raise NotFound(
            f"There is no source {args.source_id}. Find source ids with list_sources.",
            details={"source_id": args.source_id},
        )
    links_to = await _load_links_to(args, source, ctx)
    summaries = to_note_summaries(notes, ctx.zone)
    passage_ids = {chunk.chunk_id for chunk in chunks[: args.limit]}
    first_part = Out.of(
        source,
        source=source.origin,
        updated=format_day(source.updated_at, ctx.zone),
        revision=source.revision or 0,
        editable=_list_editable(note, ctx),
        text=None,
        chunks=[],
        next_cursor=None,
        notes=[note for note in summaries if note.about_id not in passage_ids and not args.cursor],
        links_to=_list_linked(links_to),
        linked_from=_list_linked(linked_from),
    )
    passages = fit_page(
        [
            _to_passage(chunk, before, source, summaries, ctx.zone)
            for before, chunk in pairwise([previous, *chunks[: args.limit]])
            if chunk
        ],
        args.max_tokens or DEFAULT_TOKENS,
        other_parts=[first_part],
    )
    next_cursor = _encode_next_cursor(args, chunks, len(passages))
    text = note.text if note and not args.cursor else None
    added = {"chunks": passages, "next_cursor": next_cursor, "text": text}
    return first_part.model_copy(update=added)


def _list_linked(sources: Sequence[StoredSource]) -> list[LinkedSource]:
    return [LinkedSource.of(source) for source in sources if not source.is_kept_out]


def _list_editable(note: NoteFields | None, ctx: Context) -> list[str]:
    if not may_edit(note.saved_by if note else None, ctx.caller):
        return []
    return ["title", "text", "tags", "url", "about"] if note else list(EDITABLE)


async def _load_linked_from(args: In, ctx: Context) -> list[StoredSource]:
    if args.cursor:
        return []
    return await Sources(ctx.database).list_linking_to(args.source_id, MAX_LINKS)


async def _load_links_to(args: In, source: StoredSource, ctx: Context) -> list[StoredSource]:
    """Load the sources that a source links to. Those that are not stored are left out."""
    if args.cursor or not source.links_to:
        return []
    return await Sources(ctx.database).get_all(source.links_to[:MAX_LINKS])


async def _load_chunks(
    args: In, position: Position | None, ctx: Context
) -> tuple[Chunk | None, list[Chunk]]:
    """Load the chunks of a page, the one before, and one after, if there is a next page."""
    chunks = Chunks(ctx.database)
    if position is None:
        return None, await chunks.load_of_source(args.source_id, args.limit + 1)
    last, following, last_position = position
    positions = await chunks.load_positions([last, following])
    first = _find_first_position(positions.get(last), positions.get(following), last_position)
    loaded = await chunks.load_of_source(args.source_id, args.limit + 2, max(first - 1, 1))
    return (loaded[0], loaded[1:]) if loaded and loaded[0].position < first else (None, loaded)


def _find_first_position(last: int | None, following: int | None, position: int) -> int:
    """Return the position where a page begins, even if the source was edited in between.

    Args:
        last: The current position of the previous page's last chunk, or None if it is deleted.
        following: The current position of the chunk that came after it, or None if it is deleted.
        position: The earlier position of the previous page's last chunk.

    Raises:
        Conflict: Both chunks are deleted, so the page cannot be located.
    """
    if last is not None:
        return last + 1
    if following is not None:
        # The last chunk is deleted. The chunk that now has its position was on no page yet.
        return min(position, following)
    raise Conflict(
        "The source was edited where this page begins. Call get_source again without the cursor."
    )


def _encode_next_cursor(args: In, chunks: list[Chunk], returned: int) -> str | None:
    if returned >= len(chunks):
        return None
    last, following = chunks[returned - 1], chunks[returned]
    return encode_cursor(args, [last.chunk_id, following.chunk_id, last.position])


def _to_passage(
    chunk: Chunk,
    previous: Chunk | None,
    source: StoredSource,
    notes: Sequence[NoteSummary],
    zone: tzinfo,
) -> SourcePassage:
    card = chunk.shown_card
    own_readwise_url = None if chunk.readwise_url == source.readwise_url else chunk.readwise_url
    own_notes = [note for note in notes if note.about_id == chunk.chunk_id]
    return SourcePassage.of(
        chunk,
        text=_cut_repeated(chunk, previous) if previous else chunk.content,
        tags=[tag for tag in chunk.tags if tag not in source.tags] or None,
        date=chunk.format_date(zone),
        takeaways=card.takeaways if card else None,
        address=chunk.highlight_url or own_readwise_url,
        readwise_url=own_readwise_url,
        notes=[note.model_copy(update={"about_id": None}) for note in own_notes] or None,
    )


def _cut_repeated(chunk: Chunk, previous: Chunk) -> str:
    """Return the text of a chunk without the end of the chunk before it, which it may repeat."""
    repeated = chunk.content[: max(0, previous.end - chunk.start)]
    return chunk.content.removeprefix(repeated if previous.content.endswith(repeated) else "")


TOOL = Tool(
    name="get_source",
    title="Get a source",
    description=(
        "Read a book, article, document or note: its whole text, links, and the notes"
        " about it. For one passage use get_chunk."
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
        description="A book, article or document, and the beginning of its text.",
    ),
)

"""List what was forgotten and can still be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field, TypeAdapter

from shared.core.caller import Role, Scope, Tier
from shared.core.dates import format_day
from shared.knowledge.source import may_edit
from shared.pipeline.forgotten_list import list_restorable
from shared.runtime.pagination import (
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import DocumentId, Result
from shared.runtime.tool import Effect, Tool
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from datetime import tzinfo

    from shared.pipeline.forgotten_list import ForgottenCursor, ForgottenItem
    from shared.runtime.context import Context

_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId])
"""The shape of a cursor: until when a page's last item is kept, and the id of its document."""
MAX_ROUNDS: Final = 20
"""The maximum number of queries for a page of an editor, who may see only a few of the items."""


class In(PagedArguments):
    """A page of the list."""

    limit: int = Field(default=20, ge=1, le=50, description="Maximum number of items.")


class Forgotten(Result):
    """A source, or a passage that was forgotten alone."""

    source_id: str = Field(description="The source.")
    chunk_id: str | None = Field(description="The passage, if it was forgotten alone.")
    title: str = Field(description="The source's title.")
    snippet: str | None = Field(description="The beginning of the passage.")
    chunk_count: int = Field(description="How many passages were forgotten.")
    forgotten: str = Field(description="The day, in TIME_ZONE.")
    forgotten_by: str = Field(description="Who forgot it.")
    forgotten_with: str | None = Field(description="With which client, if known.")
    reason: str | None = Field(description="Why, in their words.")
    restorable_until: str = Field(description="The last day on which it can be restored.")
    missing: bool = Field(
        description="Whether it was forgotten because its origin no longer had it."
    )


class Out(Result):
    """A page of what was forgotten."""

    forgotten: list[Forgotten] = Field(description="The items, those forgotten last first.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")


async def list_forgotten(args: In, ctx: Context) -> Out:
    """List what the caller may restore: an owner everything, an editor the notes that they saved.

    Costs one round trip, and up to limit + 1 sources and limit + 1 passages. An editor's page costs
    up to `MAX_ROUNDS` times as much if other users saved many of the sources.
    """
    after = decode_cursor(args, args.cursor, _POSITION)
    own = await _load_own(args.limit + 1, tuple(after) if after else None, ctx)
    page = fit_page([_to_result(item, ctx.zone) for item in own[: args.limit]], args.max_tokens)
    return Out(
        forgotten=page,
        next_cursor=encode_cursor(args, own[len(page) - 1].cursor)
        if len(page) < len(own)
        else None,
    )


async def _load_own(limit: int, after: ForgottenCursor | None, ctx: Context) -> list[ForgottenItem]:
    """Load items that the caller may restore, until there are `limit`.

    The cursor of a page contains the id of an item. It must be one that the caller may restore,
    because other ids contain titles that an editor may not see.
    """
    own: list[ForgottenItem] = []
    for _ in range(MAX_ROUNDS):
        items = await list_restorable(
            ctx.database,
            ctx.clock(),
            limit,
            after,
            with_chunks=ctx.caller.role.includes(Role.OWNER),
        )
        own += [item for item in items if may_edit(item.saved_by, ctx.caller)]
        if len(items) < limit or len(own) >= limit:
            break
        after = items[-1].cursor
    return own[:limit]


def _to_result(item: ForgottenItem, zone: tzinfo) -> Forgotten:
    return Forgotten(
        source_id=item.source_id,
        chunk_id=item.chunk_id,
        title=item.title,
        snippet=make_snippet(item.text) if item.text else None,
        chunk_count=item.chunk_count,
        forgotten=format_day(item.forgotten_at, zone),
        forgotten_by=item.forgotten_by,
        forgotten_with=item.forgotten_with,
        reason=item.reason,
        restorable_until=format_day(item.purge_at, zone),
        missing=item.missing,
    )


TOOL = Tool(
    name="list_forgotten",
    title="List what was forgotten",
    description=(
        "List what was forgotten and can still be restored, to whom may restore it. The web"
        " console shows it; models do not call it, because they shall not see what was forgotten."
    ),
    input=In,
    output=Out,
    run=list_forgotten,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    required_scope=Scope.CURATE,
    internal=True,
)

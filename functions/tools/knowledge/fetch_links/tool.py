"""Ask for the pages of links that files list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.caller import Role, Tier
from shared.links.ingest_start import start_ingest
from shared.links.repository import SavedLinks
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import IdempotentArguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context

MAX_PAGES: Final = 200
"""The links fit into one commit, and their pages are fetched within minutes."""


class In(IdempotentArguments):
    """How many pages to ask for."""

    limit: int = Field(
        default=MAX_PAGES, ge=1, le=MAX_PAGES, description="Maximum number of pages."
    )


class Out(Result):
    """How many pages were asked for."""

    queued: int = Field(description="How many wait to be fetched now, because of this call.")
    remaining: int = Field(description="How many links are still only listed.")


async def fetch_links(args: In, ctx: Context) -> Out:
    """Queue listed links, those that were saved last first, and start the job that fetches them.

    Costs two round trips, and a read for each listed link.
    """
    out = await ctx.database.retry_on_conflict(lambda: _queue(args.limit, ctx))
    if out.queued:
        await start_ingest(ctx)
    return out


async def _queue(limit: int, ctx: Context) -> Out:
    listed = await SavedLinks(ctx.database).load_listed()
    user_id, now = str(ctx.caller.user_id), ctx.clock()
    writes = [
        stored.build_update_write(replace(link, saved_by=user_id).request(now))
        for stored, link in listed[:limit]
    ]
    return await ctx.commit(writes, Out(queued=len(writes), remaining=len(listed) - len(writes)))


TOOL = Tool(
    name="fetch_links",
    title="Fetch listed links",
    description=(
        "Queue the pages of links from bookmarks and reading lists, which nobody has asked for yet."
        " A person does so in the web console; models do not call it."
    ),
    input=In,
    output=Out,
    run=fetch_links,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    role=Role.OWNER,
    capabilities=frozenset({Capability.INGEST_START}),
    internal=True,
)

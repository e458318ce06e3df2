"""`fetch_links` asks for the pages of links that files list."""

from datetime import timedelta

from shared.links.model import Link, LinkState
from shared.links.repository import SavedLinks, build_listing_write
from shared.runtime.context import App, Context
from tests.support.clock import NOON
from tests.support.notes import OWNER
from tests.support.tool_calls import call_result


async def list_links(ctx: Context, *names: str) -> None:
    """List links, each saved a day after the one before."""
    links = (
        Link(
            source_id=name,
            url=f"https://example.com/{name}",
            state=LinkState.LISTED,
            list_name="Pocket",
            saved_at=NOON + timedelta(days=day),
        )
        for day, name in enumerate(names)
    )
    await ctx.database.commit(list(map(build_listing_write, links)))


async def test_links_that_were_saved_last_are_queued_first(app: App, ctx: Context) -> None:
    await list_links(ctx, "old", "middle", "new")
    result = await call_result(app, "fetch_links", OWNER, limit=2)
    assert result == {"queued": 2, "remaining": 1}
    due = await SavedLinks(ctx.database).list_due(ctx.clock(), 9)
    assert {stored.snapshot.id for stored in due} == {"middle", "new"}
    assert {stored.link.saved_by for stored in due if stored.link} == {OWNER.user_id}
    assert await call_result(app, "fetch_links", OWNER) == {"queued": 1, "remaining": 0}


async def test_links_that_were_asked_for_stay_as_they_are(app: App) -> None:
    await call_result(app, "save_link", OWNER, url="https://example.com/saved")
    assert await call_result(app, "fetch_links", OWNER) == {"queued": 0, "remaining": 0}

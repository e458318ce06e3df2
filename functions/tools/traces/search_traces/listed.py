"""A page of the traces that bear some tags, the latest first."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from functions.tools.traces.search_traces.results import Page, hit
from shared.runtime.pagination import CursorCount, CursorMoment, fit_page
from shared.runtime.schemas import DocumentId
from shared.search.listing import list_newest
from shared.traces.corpus import solved_problems, unknown_tags

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.search.filter_plan import Selection

    Position = tuple[int, int, str]

POSITION: Final = TypeAdapter(tuple[CursorCount, CursorMoment, DocumentId])
"""How many traces were shown, and the date and the id of the last of them."""


async def listed(selection: Selection, position: Position | None, limit: int, ctx: Context) -> Page:
    """List by date: two round trips, or three where a tag does not exist."""
    shown, after = (position[0], position[1:]) if position else (0, None)
    listing = await list_newest(selection, limit, after, solved_problems(ctx.database))
    places = count(shown + 1)
    hits = fit_page([hit(each, next(places)) for each in listing.documents])
    cut = len(hits) < len(listing.documents)
    following = listing.cursors[len(hits) - 1] if cut else listing.next
    return Page(
        hits=hits,
        position=(shown + len(hits), *following) if following else None,
        matches=bool(hits or shown or following),
        notes=await unknown_tags([value for _, value in listing.unknown], ctx),
    )

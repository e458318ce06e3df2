"""A page of what passes the filters, the newest first."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from functions.tools.knowledge.search_kb import advice
from functions.tools.knowledge.search_kb.results import Page, Writer, topics
from shared.knowledge.corpus import knowledge
from shared.runtime.pagination import Count, Moment, fitting
from shared.runtime.schemas import DocumentId
from shared.search.listing import list_newest

if TYPE_CHECKING:
    from functions.tools.knowledge.search_kb.results import View
    from shared.runtime.context import Context
    from shared.search.filter_plan import Selection

    Position = tuple[int, int, str]

POSITION: Final = TypeAdapter(tuple[Count, Moment, DocumentId])
"""How many passages were shown, and the date and the id of the last of them."""


async def listed(selection: Selection, position: Position | None, view: View, ctx: Context) -> Page:
    """List by date, and read the names of topics: three round trips deep.

    Args:
        selection: What to list.
        position: Where the page before ended; None for the first.
        view: How much of it is wanted.
        ctx: To find it with.
    """
    shown, after = (position[0], position[1:]) if position else (0, None)
    listing = await list_newest(selection, view.limit, after, knowledge(ctx.database))
    writer = Writer(view, await topics(listing.documents, ctx))
    fit = fitting(list(map(writer.hit, count(shown + 1), listing.documents)))
    cut = len(fit) < len(listing.documents)
    following = listing.places[len(fit) - 1] if cut else listing.next
    notes = await advice.unknown_filters(listing.unknown, ctx)
    if not (fit or following or shown):
        notes += advice.nothing_passes(selection, listing.unknown)
    return Page(
        hits=fit,
        position=(shown + len(fit), *following) if following else None,
        matches=bool(fit),
        message=" ".join(notes) or None,
    )

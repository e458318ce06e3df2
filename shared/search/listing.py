"""Passages without a question: those that pass the filters, the newest first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from shared.search.passing import passing
from shared.search.plan import plan, prefilter
from shared.search.selection import unknown
from shared.store.chunk_lists import place

if TYPE_CHECKING:
    from shared.deps import Deps
    from shared.domain.chunk import Chunk
    from shared.search.selection import Group, Selection
    from shared.store.chunk_lists import Place


EXAMINED: Final = 300
"""Passages that are read at most to fill a page, where the lists cannot tell which pass."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of passages.

    Attributes:
        chunks: The newest first.
        places: Where each of them stands.
        next: Where the next page begins; None if this was the last.
        unknown: The filters of which no passage bears a value, each with that value.
    """

    chunks: list[Chunk]
    places: list[Place] = field(default_factory=list)
    next: Place | None = None
    unknown: tuple[tuple[Group, str], ...] = ()


async def newest(selection: Selection, limit: int, after: Place | None, deps: Deps) -> Listing:
    """List what passes: two round trips, or one where only a stretch of time was asked for."""
    if selection.span.empty:
        return Listing([])
    if not selection.groups:
        return await _walk(selection, (), limit, after, deps)
    lists = await deps.store.index_lists.read([], selection.facets)
    planned = plan(selection, lists.facets)
    if planned.exact and planned.dates is not None:
        page = await _page(selection, planned.dates, limit, after, deps)
    else:
        facets = prefilter([group.facets for group in selection.groups], lists.facets).facets
        page = await _walk(selection, facets, limit, after, deps)
    return replace(page, unknown=tuple(unknown(selection, lists)))


async def _page(
    selection: Selection, dates: dict[str, int], limit: int, after: Place | None, deps: Deps
) -> Listing:
    """The lists know all that passes: only the page itself is read."""
    every = sorted(((date, name) for name, date in dates.items()), reverse=True)
    rest = [each for each in every if after is None or each < after]
    chunks, looked = await passing([name for _, name in rest], limit, selection, deps)
    places = [(dates[chunk.chunk_id], chunk.chunk_id) for chunk in chunks]
    return Listing(chunks, places, rest[looked - 1] if looked < len(rest) else None)


async def _walk(
    selection: Selection,
    facets: tuple[str, ...],
    limit: int,
    after: Place | None,
    deps: Deps,
) -> Listing:
    """Let the server list by date, and keep what passes. A page may be short, but it goes on."""
    wanted = limit + 1 if len(selection.groups) <= 1 else EXAMINED
    found = await deps.store.chunk_lists.newest(wanted, facets, selection.span, after)
    chunks = [chunk for chunk in found if selection.admits(chunk)]
    places = [place(chunk) for chunk in chunks[:limit]]
    if len(chunks) > limit:
        return Listing(chunks[:limit], places, places[-1])
    return Listing(chunks, places, place(found[-1]) if len(found) == wanted else None)

"""Traces as they are searched: what is indexed of them, and where."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.index.analysis import indexed_state
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import Kind, named_facet
from shared.index.postings import TRACES, InvertedIndex
from shared.search.corpus import DatedCorpus
from shared.search.filter_plan import FacetFilter, Selection
from shared.text.suggestions import unknown_name_message
from shared.traces.model import Trace
from shared.traces.repository import IndexEntry, Traces
from shared.traces.trust import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database
    from shared.index.indexed_state import IndexedState
    from shared.index.searchable import Searchable
    from shared.runtime.context import Context


NAMES: Final = 100
"""Tags among which one is looked for that was meant."""


def solved_problems(database: Database) -> DatedCorpus[Trace]:
    """All traces."""
    return DatedCorpus(Traces(database), InvertedIndex(database, TRACES))


@dataclass(frozen=True)
class TraceSelection(Selection):
    """Traces that bear some tags, and that search shows.

    Attributes:
        flagged: Whether it shows those too of which voters warn.
    """

    flagged: bool = False

    def admits(self, document: Searchable) -> bool:
        """Whether a trace passes, by what it says itself."""
        warned = isinstance(document, Trace) and document.status is Status.FLAGGED
        return (self.flagged or not warned) and super().admits(document)


def bearing(tags: Sequence[str], *, flagged: bool = False) -> TraceSelection:
    """Traces that bear all of these tags."""
    groups = tuple(FacetFilter("tags", {tag: (named_facet(Kind.TAG, tag),)}) for tag in tags)
    return TraceSelection(groups, flagged=flagged)


async def unknown_tags(tags: Sequence[str], ctx: Context) -> list[str]:
    """Say of each that no trace bears it, and which there are like it. One round trip, or none."""
    if not tags:
        return []
    names = [each.name for each in await InvertedIndex(ctx.database, TRACES).names(Kind.TAG, NAMES)]
    return [unknown_name_message("tag", tag, names) for tag in tags]


MAX_TERMS: Final = 500
"""Different terms of one trace that are indexed, the commonest: each is a write."""


async def index_entry(trace: Trace, ctx: Context) -> IndexEntry:
    """Embed a trace and count its terms. One round trip, two where nothing was embedded before.

    Raises:
        Unavailable: The embedding provider is down. Nothing is stored.
        Conflict: The base is embedded with another model.
    """
    [vector], _, mark_of_trace = await asyncio.gather(
        ctx.embedder.embed([trace.writing.embedding_text], Purpose.DOCUMENT),
        EmbeddingSpace(ctx.database).claim(ctx.embedder),
        asyncio.to_thread(trace_mark, trace),
    )
    return IndexEntry(vector, ctx.embedder.model, mark_of_trace)


def trace_mark(trace: Trace) -> IndexedState:
    """What the lists are to know of a trace."""
    whole = indexed_state(trace)
    return replace(whole, terms=dict(Counter(whole.terms).most_common(MAX_TERMS)))

"""Makes traces searchable.

A corpus is a collection that search runs over. A selection is the part of a corpus that a search
may return. An index entry is what the index stores of one trace: a vector, terms and tags.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import Kind, make_named_facet
from shared.index.indexed_state import compute_indexed_state
from shared.index.postings import TRACES, InvertedIndex
from shared.search.corpus import DatedCorpus
from shared.search.filter_plan import FacetFilter, Selection
from shared.text.suggestions import unknown_name_message
from shared.traces.model import Trace
from shared.traces.repository import TraceIndexEntry, Traces
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database
    from shared.index.indexed_state import IndexedState
    from shared.index.searchable import Searchable
    from shared.runtime.context import Context
    from shared.search.filter_plan import Dates

MAX_TERMS: Final = 500
"""Only this many of a trace's most frequent terms are indexed, because each costs a write."""
SUGGESTION_POOL: Final = 100
"""A misspelt tag is compared with this many existing tags to suggest similar ones."""


def make_trace_corpus(database: Database) -> DatedCorpus[Trace]:
    """Return the corpus of all searchable traces."""
    return DatedCorpus(Traces(database), InvertedIndex(database, TRACES))


@dataclass(frozen=True)
class TraceSelection(Selection):
    """The traces that a search may return, selected by tags and by whether they are flagged."""

    include_flagged: bool = False

    def admits(self, document: Searchable) -> bool:
        """Return whether the selection contains a trace, judged by the trace's own fields."""
        is_flagged = isinstance(document, Trace) and document.status is TraceStatus.FLAGGED
        return (self.include_flagged or not is_flagged) and super().admits(document)


def select_by_tags(
    tags: Sequence[str], *, include_flagged: bool = False, only: Dates | None = None
) -> TraceSelection:
    """Select the traces that have all of these tags, among `only` if that is given."""
    # A document must meet every filter, so each tag has a filter of its own.
    filters = tuple(FacetFilter("tags", {tag: (make_named_facet(Kind.TAG, tag),)}) for tag in tags)
    return TraceSelection(filters, only=only, include_flagged=include_flagged)


async def describe_unknown_tags(tags: Sequence[str], ctx: Context) -> list[str]:
    """Return a message for each tag that no trace has. The messages suggest similar tags.

    Costs one Firestore round trip, or none without tags.
    """
    if not tags:
        return []
    postings = await InvertedIndex(ctx.database, TRACES).list_commonest(Kind.TAG, SUGGESTION_POOL)
    names = [posting.name for posting in postings]
    return [unknown_name_message("tag", tag, names) for tag in tags]


async def build_index_entry(trace: Trace, ctx: Context) -> TraceIndexEntry:
    """Embed a trace and count its terms, for the index.

    Costs one Firestore round trip, or two if nothing was ever embedded.

    Raises:
        Unavailable: The embedding provider cannot be reached.
        Conflict: The knowledge base is embedded with another model.
    """
    [vector], _, indexed_state = await asyncio.gather(
        ctx.embedder.embed([trace.content.embedding_text], Purpose.DOCUMENT),
        EmbeddingSpace(ctx.database).claim(ctx.embedder, [trace.content.embedding_text]),
        asyncio.to_thread(build_indexed_state, trace),
    )
    return TraceIndexEntry(vector, ctx.embedder.model, indexed_state)


def build_indexed_state(trace: Trace) -> IndexedState:
    """Return the terms, facets and date by which a trace is indexed."""
    complete = compute_indexed_state(trace)
    return replace(complete, terms=dict(Counter(complete.terms).most_common(MAX_TERMS)))

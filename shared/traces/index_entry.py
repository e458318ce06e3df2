"""By what search finds a trace: its vector, its words, its tags."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.index.embedding_space import EmbeddingSpace
from shared.index.indexed_state import mark
from shared.store.traces import IndexEntry

if TYPE_CHECKING:
    from shared.domain.trace import Trace
    from shared.index.indexed_state import Indexed
    from shared.runtime.context import Deps

MAX_TERMS: Final = 500
"""Different terms of one trace that are indexed, the commonest: each is a write."""


async def index_entry(trace: Trace, deps: Deps) -> IndexEntry:
    """Embed a trace and count its terms. One round trip, two where nothing was embedded before.

    Raises:
        Unavailable: The embedding provider is down. Nothing is stored.
        Conflict: The base is embedded with another model.
    """
    [vector], _, mark_of_trace = await asyncio.gather(
        deps.embedder.embed([trace.writing.embedding_text], Purpose.DOCUMENT),
        EmbeddingSpace(deps.database).claim(deps.embedder),
        asyncio.to_thread(trace_mark, trace),
    )
    return IndexEntry(vector, deps.embedder.model, mark_of_trace)


def trace_mark(trace: Trace) -> Indexed:
    """What the lists are to know of a trace."""
    whole = mark(trace)
    return replace(whole, terms=dict(Counter(whole.terms).most_common(MAX_TERMS)))

"""Traces as they are searched: what is indexed of them, and which are shown."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from shared.ai.embedding import Purpose
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import Kind, named
from shared.index.indexed_state import mark
from shared.index.postings import TRACES, IndexLists
from shared.search.corpus import DatedCorpus
from shared.search.filter_plan import Group, Selection
from shared.text.suggestions import unknown_name
from shared.traces.model import Trace
from shared.traces.repository import IndexEntry, Traces
from shared.traces.trust import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.index.indexed_state import Indexed
    from shared.index.searchable import Searchable
    from shared.runtime.context import Deps

NAMES: Final = 100
"""Tags among which one is looked for that was meant."""


def solved_problems(database: Database) -> DatedCorpus[Trace]:
    """All traces."""
    return DatedCorpus(Traces(database), IndexLists(database, TRACES))


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
    groups = tuple(Group("tags", {tag: (named(Kind.TAG, tag),)}) for tag in tags)
    return TraceSelection(groups, flagged=flagged)


async def unknown_tags(tags: Sequence[str], deps: Deps) -> list[str]:
    """Say of each that no trace bears it, and which there are like it. One round trip, or none."""
    if not tags:
        return []
    names = [each.name for each in await IndexLists(deps.database, TRACES).names(Kind.TAG, NAMES)]
    return [unknown_name("tag", tag, names) for tag in tags]


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


VOTES: Final = 0.10
VALIDATION: Final = 0.05
AGE: Final = 0.05
HALF_LIFE: Final = 2 * 365.25 * 86_400
"""Seconds after which a trace counts as half outdated: most of what it speaks of had a new major
version by then."""
LEAST: Final = 1 - VOTES - AGE
MOST: Final = 1 + VOTES + VALIDATION
SPREAD: Final = 0.2
"""Of similarities, below which what was found is alike."""


class Scored(Protocol):
    """What a search says of something that it found."""

    @property
    def id(self) -> str:
        """Which."""

    @property
    def score(self) -> float:
        """What it is ranked by."""

    @property
    def similarity(self) -> float | None:
        """Cosine similarity with the question, if they were compared."""


def moderated(
    found: Sequence[Scored], traces: Mapping[str, Trace], now: datetime
) -> dict[str, float]:
    """The scores by which traces are ordered.

    Args:
        found: All that a search found, each with its score.
        traces: Those of them that are to be ordered, by id.
        now: When.
    """
    known = [each.similarity for each in found if each.similarity is not None]
    spread = max(known) - min(known) if known else SPREAD
    scale = min(1.0, spread / SPREAD)
    return {
        each.id: (1 - (1 - each.score) * scale) * factor(traces[each.id], now)
        for each in found
        if each.id in traces
    }


def factor(trace: Trace, now: datetime) -> float:
    """By what the relevance of a trace is multiplied, from `LEAST` to `MOST`."""
    seconds = max((now - trace.updated_at).total_seconds(), 0.0)
    age = 1 - math.exp2(-seconds / HALF_LIFE)
    votes = trace.tally.trust - trace.tally.doubt
    validated = trace.status is Status.VALIDATED
    return 1 + VOTES * votes + VALIDATION * validated - AGE * age

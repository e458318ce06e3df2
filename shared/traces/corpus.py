"""Traces as what search looks in, and the tags that narrow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.domain.trace import Trace
from shared.domain.trust import Status
from shared.index.facets import Kind, named
from shared.index.postings import TRACES, IndexLists
from shared.search.corpus import DatedCorpus
from shared.search.filter_plan import Group, Selection
from shared.store.traces import Traces
from shared.text.suggestions import unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database
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

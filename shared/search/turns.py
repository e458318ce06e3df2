"""The order in which passages that were found are shown: sources take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.domain.chunk import source_id_of
from shared.retrieval.diversity import diversify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.domain.chunk import Chunk
    from shared.search.candidate import Candidate


def in_turns(hits: Sequence[Candidate[Chunk]]) -> list[Candidate[Chunk]]:
    """Let sources take turns: none crowds out the others."""
    by_id = {hit.id: hit for hit in hits}
    sources = {name: source_id_of(name) for name in by_id}
    return [by_id[name] for name, _ in diversify([(hit.id, hit.score) for hit in hits], sources)]

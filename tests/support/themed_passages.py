"""Passages about a few themes, for the job `cluster`, and the clusters that the job stores.

Passages about a theme share words, so with `WordEmbedder` each theme becomes a cluster.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from tests.support.knowledge import embed_all, ingest_sources
from tests.support.stored_documents import read_chunks, read_documents

THEMES: Final = {
    "bread": "dough flour yeast oven crust kneading starter proofing loaf baguette",
    "boats": "sail anchor mainsail harbour rudder keel mooring regatta helm jib",
    "bees": "hive honey queen swarm pollen beekeeper nectar wax brood apiary",
    "chess": "bishop knight castling pawn checkmate gambit endgame rook opening stalemate",
    "clouds": "cumulus drizzle thunderstorm barometer forecast cirrus hailstorm humidity fog front",
}
PASSAGES_PER_THEME: Final = 15
"""The default number of passages about a theme, which is enough for a cluster."""
WORDS_PER_PASSAGE: Final = 6
"""The number of its theme's words in a passage."""


def make_themed_source(theme: str, numbers: Iterable[int] = range(PASSAGES_PER_THEME)) -> Source:
    """Return a source about a theme. The same numbers always give the same passages."""
    texts = [make_passage(theme, number) for number in numbers]
    sections = tuple(Section(text=text) for text in texts)
    return Source(source_id=theme, title=f"On {theme}", sections=sections)


def make_unrelated_source(count: int) -> Source:
    """Return a source of `count` passages that have no words in common."""

    def make_text(number: int) -> str:
        return " ".join(f"stray{number}word{position}" for position in range(WORDS_PER_PASSAGE))

    sections = tuple(Section(text=make_text(number)) for number in range(count))
    return Source("loners", "Strays", sections=sections)


def make_passage(theme: str, number: int) -> str:
    """Return a passage of some of a theme's words, always the same for the same number."""
    generator = random.Random(f"{theme} {number}")  # noqa: S311 - no secret
    return (
        " ".join(generator.sample(THEMES[theme].split(), WORDS_PER_PASSAGE)) + f" {theme}{number}."
    )


async def add_sources(ctx: Context, *sources: Source) -> None:
    """Ingest sources, or their new versions, and embed them."""
    await ingest_sources(ctx, *sources)
    await embed_all(ctx)


async def delete_source(ctx: Context, source: Source) -> None:
    """Delete a source with all its passages."""
    await ingest_sources(ctx, replace(source, sections=()))


async def read_sources_by_cluster(ctx: Context) -> dict[str, set[str]]:
    """Return the ids of the sources of each cluster's passages, by cluster id."""
    sources: dict[str, set[str]] = {}
    for chunk in (await read_chunks(ctx)).values():
        for cluster_id in chunk.get("cluster_id") or ():
            sources.setdefault(cluster_id, set()).add(chunk["source_id"])
    return sources


async def read_cluster_sizes(ctx: Context) -> tuple[dict[str, int], dict[str, int]]:
    """Return the stored size of each cluster, and the actual number of its passages.

    Also assert that the stored numbers by category are right.
    """
    kinds: dict[str, Counter[str]] = {}
    for chunk in (await read_chunks(ctx)).values():
        for cluster_id in chunk.get("cluster_id") or ():
            kinds.setdefault(cluster_id, Counter())[chunk["category"]] += 1
    clusters = await read_documents(ctx, "clusters")
    assert {cluster_id: cluster["kinds"] for cluster_id, cluster in clusters.items()} == kinds
    stored_sizes = {cluster_id: cluster["size"] for cluster_id, cluster in clusters.items()}
    return stored_sizes, {cluster_id: of_all.total() for cluster_id, of_all in kinds.items()}


async def count_pending_chunks(ctx: Context) -> int:
    """Return the number of passages that wait to be assigned to a cluster."""
    return sum(
        "cluster" in data["pending"] for data in (await read_documents(ctx, "chunks")).values()
    )


async def read_clustering(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of all documents that the job reads or writes, by path.

    The version of the map is removed from fields and paths, because it is random.
    """
    stored = {
        f"{collection}/{name}": data
        for collection in ("chunks", "clusters", "meta")
        for name, data in (await read_documents(ctx, collection)).items()
    }
    stored.get("meta/map", {}).pop("version", None)
    pages = await read_documents(ctx, "map")
    return stored | {f"map/{name.partition('-')[2]}": page for name, page in pages.items()}

"""The cards and clusters of the sample fit its passages, and are stored once.

They were made by hand and stand in `knowledge.json`, by highlight of the export `readwise.json`. A
long highlight has several parts, each a passage with a card.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from functions.jobs.cluster.job import cluster
from functions.jobs.ingest.readers.reading import read
from infra.local.sample.knowledge import (
    FOLDER,
    SampleKnowledge,
    add_knowledge,
    map_chunks_by_highlight,
)
from shared.ai.embedding import Purpose, Vector, unit_vector
from shared.core.ids import safe_id
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.themed_passages import add_sources, read_clustering

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
KNOWLEDGE = SampleKnowledge.model_validate_json((FOLDER / "knowledge.json").read_text())
CHUNKS_BY_URL = map_chunks_by_highlight(FOLDER / "readwise.json")
"""The chunk ids of each highlight by its address."""


class HashEmbedder:
    """An embedder whose vectors depend on the text but have no meaning, and cost no time."""

    model = "hashing"
    dimension = 32
    batch_size = 64

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        del purpose
        digests = (sha256(text.encode()).digest() for text in texts)
        return [unit_vector([byte - 127.5 for byte in digest], 32) for digest in digests]

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    opened = App(settings, embedder=HashEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
async def sample(ctx: Context, tmp_path: Path) -> Path:
    """A copy of the sample's folder, whose export is in the knowledge base."""
    for name in ("readwise.json", "knowledge.json"):
        shutil.copy(FOLDER / name, tmp_path)
    sources = read(tmp_path / "readwise.json")
    await add_sources(ctx, *(source for source in sources if isinstance(source, Source)))
    return tmp_path


def edit_card(folder: Path, card: int, **fields: object) -> None:
    """Change a card of `knowledge.json`."""
    path = folder / "knowledge.json"
    content = json.loads(path.read_text())
    content["cards"][card] |= fields
    path.write_text(json.dumps(content))


def get_url(highlight: int) -> str:
    """Return the address of a highlight."""
    return f"https://readwise.io/open/{highlight}"


async def read_card(ctx: Context, highlight: int) -> dict[str, Any]:
    """Return the stored card of a highlight with one part."""
    [chunk_id] = CHUNKS_BY_URL[get_url(highlight)]
    card: dict[str, Any] = (await read_documents(ctx, "chunks"))[chunk_id]["knowledge_card"]
    return card


def test_every_chunk_of_every_highlight_has_one_card() -> None:
    highlights = {url: chunks for url, chunks in CHUNKS_BY_URL.items() if "/open/" in url}
    assert len(highlights) == 64
    parts = [
        (url, part) for url, chunks in highlights.items() for part in range(1, len(chunks) + 1)
    ]
    parts_with_cards = [(get_url(card.highlight), card.part) for card in KNOWLEDGE.cards]
    assert sorted(parts_with_cards) == sorted(parts)


def test_no_two_cards_are_equal() -> None:
    texts = [text for card in KNOWLEDGE.cards for text in (card.summary, *card.takeaways)]
    assert len(texts) == len(set(texts))


def test_a_cluster_has_each_highlight_at_most_once() -> None:
    for sample_cluster in KNOWLEDGE.clusters:
        members = sample_cluster.members
        assert len(members) == len(set(members))
        assert set(map(get_url, members)) <= CHUNKS_BY_URL.keys()


def test_clusters_have_stable_ids_and_short_names() -> None:
    ids = [sample_cluster.cluster_id for sample_cluster in KNOWLEDGE.clusters]
    assert len(set(ids)) == 9
    assert [safe_id(cluster_id) for cluster_id in ids] == ids
    for sample_cluster in KNOWLEDGE.clusters:
        assert 3 <= len(sample_cluster.name.split()) <= 6


async def test_cards_and_clusters_are_stored(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    chunks = await read_documents(ctx, "chunks")
    with_card = ["knowledge_card" in data for data in chunks.values()]
    assert Counter(with_card) == {True: 68, False: 5}  # a note about a book, and four summaries

    clusters = await Clusters(ctx.database).list_largest(20)
    sizes = Counter(name for data in chunks.values() for name in data.get("cluster_id", []))
    assert {cluster.cluster_id: cluster.size for cluster in clusters} == sizes
    assert {cluster.run_id for cluster in clusters} == {"sample"}


async def test_a_cluster_is_nearest_to_its_own_chunks(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    stored = await Clusters(ctx.database).get("flaky-tests")
    assert stored is not None
    [nearest] = await Clusters(ctx.database).find_nearest(stored.centroid, 1)
    assert nearest.cluster == stored.cluster
    assert nearest.similarity == pytest.approx(1)


async def test_adding_the_sample_again_writes_nothing(
    ctx: Context, sample: Path, meter: Meter
) -> None:
    await add_knowledge(ctx, sample)
    written_before = meter.documents_written
    await add_knowledge(ctx, sample)
    assert meter.documents_written == written_before


async def test_only_an_edited_card_is_written(ctx: Context, sample: Path, meter: Meter) -> None:
    await add_knowledge(ctx, sample)
    written_before = meter.documents_written
    edit_card(sample, 0, summary="Fakes, kept honest.")
    await add_knowledge(ctx, sample)
    card = await read_card(ctx, KNOWLEDGE.cards[0].highlight)
    assert card["summary"] == "Fakes, kept honest."
    assert meter.documents_written - written_before == 1


async def add_note(ctx: Context, *cluster_ids: str) -> str:
    """Add a chunk of a user to these clusters, and return its id."""
    await add_sources(ctx, Source("own", "Own", sections=(Section("My own note."),)))
    chunks = await read_chunks(ctx)
    [chunk_id] = [name for name, data in chunks.items() if data["source_id"] == "own"]
    change = {"cluster_id": list(cluster_ids), "pending.cluster": NOON}
    await ctx.database.connection.client.collection("chunks").document(chunk_id).update(change)
    return chunk_id


async def test_adding_the_sample_again_keeps_other_chunks_in_clusters(
    ctx: Context, sample: Path, meter: Meter
) -> None:
    await add_knowledge(ctx, sample)
    note_id = await add_note(ctx, "flaky-tests")
    before, written_before = await read_clustering(ctx), meter.documents_written
    await add_knowledge(ctx, sample)
    assert meter.documents_written == written_before
    assert await read_clustering(ctx) == before
    assert before[f"chunks/{note_id}"]["cluster_id"] == ["flaky-tests"]


@pytest.mark.slow
async def test_adding_the_sample_after_a_cluster_run_writes_nothing(
    ctx: Context, sample: Path, meter: Meter
) -> None:
    await add_knowledge(ctx, sample)
    await add_note(ctx)
    await (
        ctx.database.connection.client.collection("meta")
        .document("clustering")
        .update({"changed": 20})
    )
    assert (await cluster(ctx, make_ample_budget())).counts["topics"]
    before, written_before = await read_clustering(ctx), meter.documents_written
    await add_knowledge(ctx, sample)
    assert meter.documents_written == written_before
    assert await read_clustering(ctx) == before


async def test_clusters_of_a_run_are_not_replaced(ctx: Context, sample: Path) -> None:
    run_cluster = ClusterWithCentroid(Cluster("c-1", "Notes", None), (1.0,) + (0.0,) * 31)
    note_id = await add_note(ctx)
    members = {"c-1": [note_id]}
    await Clusters(ctx.database).save_with_members([run_cluster], members, "run-1", ctx.clock())
    clustering = Clustering(
        model="hashing", run_id="run-1", made_at=NOON, passages=1, uncounted=False
    )
    await Clusterings(ctx.database).save(clustering)

    await add_knowledge(ctx, sample)
    assert (await read_documents(ctx, "clusters")).keys() == {"c-1"}
    assert (await read_documents(ctx, "chunks"))[note_id]["cluster_id"] == ["c-1"]
    assert await Clusterings(ctx.database).load() == clustering


async def test_a_renamed_cluster_gets_the_name_in_the_sample_again(
    ctx: Context, sample: Path
) -> None:
    await add_knowledge(ctx, sample)
    before = await read_documents(ctx, "clusters")
    renamed = {"name": "Outage, customer, system", "keywords": [], "named_by": "words"}
    await (
        ctx.database.connection.client.collection("clusters").document("incidents").update(renamed)
    )
    await add_knowledge(ctx, sample)
    assert await read_documents(ctx, "clusters") == before


async def test_clusters_without_highlights_are_deleted(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    sources = [source for source in read(sample / "readwise.json") if isinstance(source, Source)]
    await add_sources(ctx, *(replace(source, sections=(), adds_only=False) for source in sources))
    (sample / "readwise.json").write_text(json.dumps({"results": []}))
    await add_knowledge(ctx, sample)
    await cluster(ctx, make_ample_budget())
    assert await read_documents(ctx, "clusters") == {}

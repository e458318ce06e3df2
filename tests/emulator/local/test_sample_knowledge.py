"""The cards and clusters of the sample fit its passages, and are stored once.

They were made by hand and stand in `knowledge.json`, by highlight of the export `readwise.json`. A
long highlight has a card for each of its passages.
"""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from functions.jobs.cards.extractive import MIN_TEXT
from functions.jobs.cluster.job import cluster
from functions.jobs.ingest.listing import read
from infra.local.sample.knowledge import (
    FOLDER,
    SampleKnowledge,
    add_knowledge,
    map_chunks_by_highlight,
)
from shared.ai.embedding import Purpose, Vector, unit_vector
from shared.core.ids import safe_id
from shared.core.meter import Meter
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.text.splitting import CHUNK_LIMITS
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.themed_passages import add_sources

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
KNOWLEDGE = SampleKnowledge.model_validate_json((FOLDER / "knowledge.json").read_text())
CHUNKS_BY_URL = map_chunks_by_highlight(FOLDER / "readwise.json", CHUNK_LIMITS["local"])
"""The chunks of each highlight by its address."""


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
def embedder() -> HashEmbedder:
    """An embedder that costs no time."""
    return HashEmbedder()


@pytest.fixture
async def sample(ctx: Context, tmp_path: Path) -> Path:
    """A copy of the sample's folder, whose export is in the knowledge base."""
    for name in ("readwise.json", "knowledge.json"):
        shutil.copy(FOLDER / name, tmp_path)
    sources = read(tmp_path / "readwise.json")
    await add_sources(ctx, *(source for source in sources if isinstance(source, Source)))
    return tmp_path


def get_url(highlight: int) -> str:
    """Return the address of a highlight."""
    return f"https://readwise.io/open/{highlight}"


def test_every_chunk_of_a_highlight_that_is_not_short_has_one_card() -> None:
    highlights = {url: chunks for url, chunks in CHUNKS_BY_URL.items() if "/open/" in url}
    assert len(highlights) == 64
    cards = Counter(get_url(card.highlight) for card in KNOWLEDGE.cards)
    assert cards == {
        url: len(chunks) for url, chunks in highlights.items() if len(chunks[0].content) >= MIN_TEXT
    }


def test_cards_differ_and_clusters_have_stable_ids_and_short_names() -> None:
    texts = [text for card in KNOWLEDGE.cards for text in (card.summary, *card.takeaways)]
    assert len(texts) == len(set(texts))
    ids = [sample_cluster.cluster_id for sample_cluster in KNOWLEDGE.clusters]
    assert len(set(ids)) == 9
    assert [safe_id(cluster_id) for cluster_id in ids] == ids
    for sample_cluster in KNOWLEDGE.clusters:
        assert 3 <= len(sample_cluster.name.split()) <= 6
        members = sample_cluster.members
        assert len(members) == len(set(members))
        assert set(map(get_url, members)) <= CHUNKS_BY_URL.keys()


async def test_cards_and_clusters_are_stored_once(ctx: Context, sample: Path, meter: Meter) -> None:
    assert await add_knowledge(ctx, sample) == {"cards": 74, "clusters": 9}
    chunks = await read_documents(ctx, "chunks")
    with_card = ["knowledge_card" in data for data in chunks.values()]
    assert Counter(with_card) == {
        True: 74,
        False: 9,
    }  # four short highlights, a note and four summaries

    clusters = await Clusters(ctx.database).list_largest(20)
    sizes = Counter(name for data in chunks.values() for name in data.get("cluster_id", []))
    assert {cluster.cluster_id: cluster.size for cluster in clusters} == sizes
    assert {cluster.run_id for cluster in clusters} == {"sample"}

    stored = await Clusters(ctx.database).get("flaky-tests")
    assert stored is not None
    [nearest] = await Clusters(ctx.database).find_nearest(stored.centroid, 1)
    assert nearest.cluster == stored.cluster
    assert nearest.similarity == pytest.approx(1)

    # What is there already is not written again, even if it differs.
    written_before = meter.documents_written
    path = sample / "knowledge.json"
    content = json.loads(path.read_text())
    content["cards"][0]["summary"] = "Fakes, kept honest."
    path.write_text(json.dumps(content))
    assert await add_knowledge(ctx, sample) == {}
    assert meter.documents_written == written_before


async def add_note(ctx: Context, *cluster_ids: str) -> str:
    """Add a chunk of a user to these clusters, and return its id."""
    await add_sources(ctx, Source("own", "Own", sections=(Section("My own note."),)))
    chunks = await read_chunks(ctx)
    [chunk_id] = [name for name, data in chunks.items() if data["source_id"] == "own"]
    change = {"cluster_id": list(cluster_ids), "pending.cluster": NOON}
    await ctx.database.connection.client.collection("chunks").document(chunk_id).update(change)
    return chunk_id


async def test_clusters_of_a_run_are_not_replaced(ctx: Context, sample: Path) -> None:
    run_cluster = ClusterWithCentroid(Cluster("c-1", "Notes", None), (1.0,) + (0.0,) * 31)
    note_id = await add_note(ctx, "c-1")
    await Clusters(ctx.database).put_clusters([run_cluster])
    clustering = Clustering(
        model="hashing", run_id="run-1", made_at=NOON, passages=1, uncounted=False
    )
    await Clusterings(ctx.database).save(clustering)

    await add_knowledge(ctx, sample)
    assert (await read_documents(ctx, "clusters")).keys() == {"c-1"}
    assert (await read_documents(ctx, "chunks"))[note_id]["cluster_id"] == ["c-1"]
    assert await Clusterings(ctx.database).load() == clustering


async def test_clusters_without_highlights_are_deleted(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    sources = [source for source in read(sample / "readwise.json") if isinstance(source, Source)]
    await add_sources(ctx, *(replace(source, sections=(), adds_only=False) for source in sources))
    (sample / "readwise.json").write_text(json.dumps({"results": []}))
    await add_knowledge(ctx, sample)
    await cluster(ctx, make_ample_budget())
    assert await read_documents(ctx, "clusters") == {}

"""The sample's cards and clusters: complete, valid for the export, and stored once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.cluster.job import cluster
from functions.jobs.ingest.readers.reading import read
from infra.local.sample.knowledge import (
    FOLDER,
    SampleKnowledge,
    add_knowledge,
    map_chunks_by_highlight,
)
from shared.ai.embedding import unit_vector
from shared.core.ids import safe_id
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.themed_passages import add_sources, read_clustering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from shared.ai.embedding import Purpose, Vector
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
KNOWLEDGE = SampleKnowledge.model_validate_json((FOLDER / "knowledge.json").read_text())
PAGES = map_chunks_by_highlight(FOLDER / "readwise.json")


class Hashing:
    """An embedder without cost: a vector per text, without meaning."""

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
    opened = App(settings, embedder=Hashing())
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


def edit(folder: Path, card: int, **fields: object) -> None:
    """Change a card of `knowledge.json`."""
    path = folder / "knowledge.json"
    content = json.loads(path.read_text())
    content["cards"][card] |= fields
    path.write_text(json.dumps(content))


async def load_card(ctx: Context, highlight: int) -> dict[str, Any]:
    [chunk_id] = PAGES[f"https://readwise.io/open/{highlight}"]
    card: dict[str, Any] = (await read_documents(ctx, "chunks"))[chunk_id]["knowledge_card"]
    return card


def test_every_chunk_of_every_highlight_has_one_card() -> None:
    expected = [
        (page, part)
        for page, chunks in PAGES.items()
        if "/open/" in page
        for part in range(1, len(chunks) + 1)
    ]
    cards = KNOWLEDGE.cards
    parts = [(f"https://readwise.io/open/{card.highlight}", card.part) for card in cards]
    assert len(dict(expected)) == 64
    assert sorted(expected) == sorted(parts)


def test_no_two_cards_are_equal() -> None:
    texts = [text for card in KNOWLEDGE.cards for text in (card.summary, *card.takeaways)]
    assert len(texts) == len(set(texts))


def test_every_highlight_is_in_at_most_one_cluster() -> None:
    for topic in KNOWLEDGE.clusters:
        assert len(topic.members) == len(set(topic.members))
        assert {f"https://readwise.io/open/{member}" for member in topic.members} <= PAGES.keys()


def test_clusters_have_stable_ids_and_short_names() -> None:
    names = [topic.cluster_id for topic in KNOWLEDGE.clusters]
    assert len(set(names)) == 9
    assert [safe_id(name) for name in names] == names
    assert {3 <= len(topic.name.split()) <= 6 for topic in KNOWLEDGE.clusters} == {True}


async def test_cards_and_clusters_are_stored(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    chunks = await read_documents(ctx, "chunks")
    with_card = ["knowledge_card" in data for data in chunks.values()]
    assert Counter(with_card) == {True: 68, False: 5}  # a note about a book, and four summaries
    memberships = [name for data in chunks.values() for name in data.get("cluster_id", [])]
    clusters = await Clusters(ctx.database).list_largest(20)
    expected = {name: memberships.count(name) for name in memberships}
    assert {cluster.cluster_id: cluster.size for cluster in clusters} == expected
    assert {cluster.run_id for cluster in clusters} == {"sample"}


async def test_a_cluster_is_nearest_to_its_own_chunks(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    parts = await Clusters(ctx.database).get("flaky-tests")
    assert parts is not None
    [nearest] = await Clusters(ctx.database).find_nearest(parts.centroid, 1)
    assert parts.cluster == nearest.cluster
    assert nearest.similarity == pytest.approx(1)


async def test_loading_again_writes_nothing(ctx: Context, sample: Path, meter: Meter) -> None:
    await add_knowledge(ctx, sample)
    before = meter.documents_written
    await add_knowledge(ctx, sample)
    assert before == meter.documents_written


async def test_only_an_edited_card_is_written(ctx: Context, sample: Path, meter: Meter) -> None:
    await add_knowledge(ctx, sample)
    before = meter.documents_written
    edit(sample, 0, summary="Fakes, kept honest.")
    await add_knowledge(ctx, sample)
    assert (await load_card(ctx, KNOWLEDGE.cards[0].highlight))["summary"] == "Fakes, kept honest."
    assert meter.documents_written - before == 1


async def add_note(ctx: Context, *cluster_ids: str) -> str:
    """Add a chunk of a user to these clusters, and return its id."""
    await add_sources(ctx, Source("own", "Own", sections=(Section("My own note."),)))
    [chunk_id] = [
        name for name, data in (await read_chunks(ctx)).items() if data["source_id"] == "own"
    ]
    change = {"cluster_id": list(cluster_ids), "pending.cluster": NOON}
    await ctx.database.document("chunks", chunk_id).update(change)
    return chunk_id


async def test_loading_again_keeps_other_chunks_in_clusters(
    ctx: Context, sample: Path, meter: Meter
) -> None:
    await add_knowledge(ctx, sample)
    own = await add_note(ctx, "flaky-tests")
    before, writes = await read_clustering(ctx), meter.documents_written
    await add_knowledge(ctx, sample)
    assert (await read_clustering(ctx), meter.documents_written) == (before, writes)
    assert before[f"chunks/{own}"]["cluster_id"] == ["flaky-tests"]


@pytest.mark.slow
async def test_loading_again_after_a_cluster_run_writes_nothing(
    ctx: Context, sample: Path, meter: Meter
) -> None:
    await add_knowledge(ctx, sample)
    await add_note(ctx)
    await ctx.database.document("meta", "clustering").update({"changed": 20})
    assert (await cluster(ctx, make_ample_budget())).counts["topics"]
    before, writes = await read_clustering(ctx), meter.documents_written
    await add_knowledge(ctx, sample)
    assert (await read_clustering(ctx), meter.documents_written) == (before, writes)


async def test_clusters_of_a_run_are_not_replaced(ctx: Context, sample: Path) -> None:
    theirs = ClusterWithCentroid(Cluster("theirs", "Theirs", None), (1.0,) + (0.0,) * 31)
    own = await add_note(ctx)
    await Clusters(ctx.database).save_with_members(
        [theirs], {"theirs": [own]}, "run-1", ctx.clock()
    )
    clustering = Clustering(model="hashing", run_id="run-1", made_at=NOON, passages=1)
    clusterings = Clusterings(ctx.database)
    await clusterings.save(replace(clustering, uncounted=False))
    await add_knowledge(ctx, sample)
    assert (await read_documents(ctx, "clusters")).keys() == {"theirs"}
    assert (await read_documents(ctx, "chunks"))[own]["cluster_id"] == ["theirs"]
    assert replace(clustering, uncounted=False) == await clusterings.load()


async def test_a_renamed_cluster_gets_the_samples_name(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    before = await read_documents(ctx, "clusters")
    lost = {"name": "Outage, customer, system", "keywords": [], "named_by": "words"}
    await ctx.database.document("clusters", "incidents").update(lost)
    await add_knowledge(ctx, sample)
    assert await read_documents(ctx, "clusters") == before


async def test_clusters_without_highlights_are_deleted(ctx: Context, sample: Path) -> None:
    await add_knowledge(ctx, sample)
    sources = [source for source in read(sample / "readwise.json") if isinstance(source, Source)]
    await add_sources(ctx, *(replace(source, sections=()) for source in sources))
    (sample / "readwise.json").write_text(json.dumps({"results": []}))
    await add_knowledge(ctx, sample)
    await cluster(ctx, make_ample_budget())
    assert await read_documents(ctx, "clusters") == {}

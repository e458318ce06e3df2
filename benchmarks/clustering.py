"""Time, memory and stability of clustering.

Usage: python -m benchmarks.clustering [--sizes N ...]

The base consists of SciFact's abstracts with their vectors; sizes beyond 5,183 add slightly moved
copies. Each size has its own process. Stability is the adjusted Rand index of two clusterings, one
of them without a tenth of the base. Agreement with clusters made by a person is measured on the
sample, which is embedded for it. It takes two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.dataset import SCIFACT, read_sources
from benchmarks.measurement import print_table
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import FOLDER, SampleKnowledge, chunks_by_highlight
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.clustering.clusters import find_clusters
from shared.clustering.density import NOISE
from tests.support.knowledge import with_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Labels = NDArray[np.intp]
    Matrix = NDArray[np.float32]

VECTORS: Final = SCIFACT / "minilm-int8.documents.npy"
SIZES: Final = (1_000, 5_000, 20_000)
MOVED: Final = 0.035
"""The standard deviation of a copy along each axis, which makes a similarity of 0.82."""
LEFT_OUT: Final = 0.1
PAGE: Final = "https://readwise.io/open/{}"


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """The clustering of a base.

    Attributes:
        seconds: How long it took.
        megabytes: The most memory that the process ever had, all that it imports among it.
        topics: How many there are.
        noise: The share of passages that have none.
        agreement: With what else it could be, as the adjusted Rand index.
    """

    seconds: float
    megabytes: float
    topics: int
    noise: float
    agreement: float

    def row(self, name: str) -> list[str]:
        """Return the row of the table."""
        return [
            name,
            f"{self.seconds:.1f}",
            f"{self.megabytes:.0f}",
            str(self.topics),
            f"{self.noise:.2f}",
            f"{self.agreement:.2f}",
        ]


def cluster_scifact(size: int) -> ClusteringResult:
    """Cluster a number of vectors, and again most of them."""
    vectors = _vectors(size)
    labels, seconds = _timed(vectors)
    megabytes = _megabytes()
    kept = np.flatnonzero(np.random.default_rng(1).random(size) >= LEFT_OUT)
    again, _ = _timed(vectors[kept])
    return _result(labels, seconds, megabytes, _agreement(labels[kept], again))


def cluster_sample(_: int) -> ClusteringResult:
    """Cluster the sample, and compare with the clusters in `knowledge.json`."""
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in with_chunks(source).chunks]
    embedder = LocalEmbedder()
    texts = [chunk.embedding_text for chunk in chunks]
    vectors = np.array(asyncio.run(embedder.embed(texts, Purpose.DOCUMENT)), np.float32)
    labels, seconds = _timed(vectors)
    by_hand = _by_hand([chunk.chunk_id for chunk in chunks])
    return _result(labels, seconds, _megabytes(), _agreement(labels, by_hand))


def _result(labels: Labels, seconds: float, megabytes: float, agreement: float) -> ClusteringResult:
    noise = float((labels == NOISE).mean())
    return ClusteringResult(seconds, megabytes, int(labels.max()) + 1, noise, agreement)


def _by_hand(chunk_ids: list[str]) -> Labels:
    """Return the first cluster of each chunk in `knowledge.json`."""
    text = (FOLDER / "knowledge.json").read_text(encoding="utf-8")
    pages = chunks_by_highlight(SAMPLE)
    labels = np.full(len(chunk_ids), NOISE, np.intp)
    topics = list(enumerate(SampleKnowledge.model_validate_json(text).clusters))
    for number, topic in reversed(topics):
        for member in topic.members:
            for chunk_id in pages[PAGE.format(member)]:
                labels[chunk_ids.index(chunk_id)] = number
    return labels


def _vectors(size: int) -> Matrix:
    vectors: Matrix = np.load(VECTORS)
    chance = np.random.default_rng(0)
    copies = [vectors]
    while sum(map(len, copies)) < size:
        moved = vectors + MOVED * chance.standard_normal(vectors.shape, np.float32)
        copies.append(moved / np.linalg.norm(moved, axis=1, keepdims=True))
    return np.concatenate(copies)[:size]


def _timed(vectors: Matrix) -> tuple[Labels, float]:
    started = time.perf_counter()
    topics = find_clusters(vectors)
    seconds = time.perf_counter() - started
    labels = np.full(len(vectors), NOISE, np.intp)
    for number, topic in enumerate(topics):
        labels[topic.members] = number
    return labels, seconds


def _agreement(one: Labels, other: Labels) -> float:
    from sklearn.metrics import adjusted_rand_score

    both = (one != NOISE) & (other != NOISE)
    return float(adjusted_rand_score(one[both], other[both]))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes: list[int] = parser.parse_args().sizes
    if not VECTORS.is_file():
        sys.exit(f"skipped: {VECTORS} is not here")
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(1, maxtasksperchild=1) as pool:
        rows = [pool.apply(cluster_sample, (0,)).row("the sample, against its topics by hand")]
        rows += [
            pool.apply(cluster_scifact, (size,)).row(f"{size:,} abstracts, against nine in ten")
            for size in sizes
        ]
    columns = ("passages", "seconds", "MB", "topics", "noise", "ARI")
    print_table("Finding topics", columns, rows)


if __name__ == "__main__":
    main()

"""Time, memory and stability of clustering.

Usage: python -m benchmarks.clustering [--sizes N ...]

The vectors are those of SciFact's 5,183 abstracts; larger sizes add copies with noise. Each size is
measured in a process of its own. Stability is the adjusted Rand index of two clusterings, one of
them without a tenth of the vectors. On the sample, the clustering is compared with clusters that a
person made. The benchmark takes two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.dataset import read_sources
from benchmarks.measurement import print_table
from benchmarks.scifact import VECTORS, require_file
from functions.jobs.cluster.planning import to_matrix
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import FOLDER, SampleKnowledge, map_chunks_by_highlight
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.clustering.clusters import find_clusters
from shared.clustering.density import NOISE
from shared.index.stored_vector import to_compact
from shared.text.splitting import CHUNK_LIMITS
from tests.support.knowledge import chunk_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Labels = NDArray[np.intp]
    Matrix = NDArray[np.float32]

SIZES: Final = (1_000, 5_000, 20_000)
NOISE_DEVIATION: Final = 0.035
"""The standard deviation of a copy on each axis; its cosine similarity to the original is 0.82."""
OMITTED_SHARE: Final = 0.1
HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """The time, memory and outcome of a clustering.

    Attributes:
        seconds: The elapsed time.
        megabytes: The peak memory of the process, including imported modules.
        clusters: The number of clusters.
        noise: The share of passages without a cluster.
        agreement: The adjusted Rand index with another clustering of the same passages.
    """

    seconds: float
    megabytes: float
    clusters: int
    noise: float
    agreement: float

    def make_row(self, name: str) -> list[str]:
        """Return the row of the table."""
        return [
            name,
            f"{self.seconds:.1f}",
            f"{self.megabytes:.0f}",
            str(self.clusters),
            f"{self.noise:.2f}",
            f"{self.agreement:.2f}",
        ]


def cluster_scifact(size: int) -> ClusteringResult:
    """Cluster this many vectors, and again without a tenth of them."""
    vectors = make_vectors(size)
    labels, seconds = _time_clustering(vectors)
    megabytes = _measure_megabytes()
    subset = np.flatnonzero(np.random.default_rng(1).random(size) >= OMITTED_SHARE)
    subset_labels, _ = _time_clustering(vectors[subset])
    return _make_result(
        labels, seconds, megabytes, _compute_agreement(labels[subset], subset_labels)
    )


def cluster_sample() -> ClusteringResult:
    """Cluster the sample, and compare with the clusters in `knowledge.json`."""
    chunks = [chunk for source in read_sources(SAMPLE) for chunk in chunk_source(source).chunks]
    embedder = LocalEmbedder()
    texts = [chunk.embedding_text for chunk in chunks]
    embedded = asyncio.run(embedder.embed(texts, Purpose.DOCUMENT))
    vectors = to_matrix([to_compact(vector) for vector in embedded], embedder.model)
    labels, seconds = _time_clustering(vectors)
    reference_labels = _read_reference_labels([chunk.chunk_id for chunk in chunks])
    return _make_result(
        labels, seconds, _measure_megabytes(), _compute_agreement(labels, reference_labels)
    )


def _make_result(
    labels: Labels, seconds: float, megabytes: float, agreement: float
) -> ClusteringResult:
    noise = float((labels == NOISE).mean())
    return ClusteringResult(seconds, megabytes, int(labels.max()) + 1, noise, agreement)


def _read_reference_labels(chunk_ids: list[str]) -> Labels:
    """Return the first cluster of each chunk in `knowledge.json`."""
    text = (FOLDER / "knowledge.json").read_text(encoding="utf-8")
    chunks_by_url = map_chunks_by_highlight(SAMPLE, CHUNK_LIMITS["local"])
    labels = np.full(len(chunk_ids), NOISE, np.intp)
    clusters = list(enumerate(SampleKnowledge.model_validate_json(text).clusters))
    for number, cluster in reversed(clusters):
        for member in cluster.members:
            for chunk in chunks_by_url[HIGHLIGHT_URL.format(member)]:
                labels[chunk_ids.index(chunk.chunk_id)] = number
    return labels


def make_vectors(size: int) -> Matrix:
    """Return this many vectors of abstracts, `(size, dimension)`, the last ones noisy copies."""
    vectors: Matrix = np.load(VECTORS)
    random = np.random.default_rng(0)
    copies = [vectors]
    while sum(map(len, copies)) < size:
        noisy = vectors + NOISE_DEVIATION * random.standard_normal(vectors.shape, np.float32)
        copies.append(noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
    return np.concatenate(copies)[:size]


def _time_clustering(vectors: Matrix) -> tuple[Labels, float]:
    started = time.perf_counter()
    clusters = find_clusters(vectors)
    seconds = time.perf_counter() - started
    labels = np.full(len(vectors), NOISE, np.intp)
    for number, cluster in enumerate(clusters):
        labels[cluster.members] = number
    return labels, seconds


def _compute_agreement(first: Labels, second: Labels) -> float:
    from sklearn.metrics import adjusted_rand_score

    clustered = (first != NOISE) & (second != NOISE)
    return float(adjusted_rand_score(first[clustered], second[clustered]))


def _measure_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes: list[int] = parser.parse_args().sizes
    require_file(VECTORS)
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(1, maxtasksperchild=1) as pool:
        rows = [
            pool.apply(cluster_sample).make_row("the sample, against its clusters made by hand")
        ]
        rows += [
            pool.apply(cluster_scifact, (size,)).make_row(
                f"{size:,} abstracts, against nine in ten"
            )
            for size in sizes
        ]
    columns = ("passages", "seconds", "MB", "clusters", "noise", "ARI")
    print_table("Finding clusters", columns, rows)


if __name__ == "__main__":
    main()

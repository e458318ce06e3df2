"""The time of searches, compared with the same bare requests to Firestore.

Usage: python -m benchmarks.search [ROUNDS]

It runs in one process, without HTTP, on the emulator, with 2,000 chunks and 768 dimensions, as in
the cloud, and 4,900 chunks and 384 dimensions, as on a laptop. The vectors of questions are cached.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from itertools import cycle
from typing import TYPE_CHECKING, Final

from benchmarks.baselines import FirestoreBaseline
from benchmarks.dataset import CachingEmbedder, fill_database, scifact_vectors
from benchmarks.measurement import interleaved, milliseconds, print_table, ratio, timed
from functions.tools.knowledge.search_kb.tool import In, search_kb
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.search.query import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurement import Measurement
    from shared.ai.embedding import Embedder, Vector

ROUNDS: Final = 24
BASES: Final = ((2_000, 768), (4_900, 384))
"""The numbers of chunks and the dimensions of their vectors."""
_CALLER: Final = Caller.of("reader")


class RepeatedEmbedder:
    """The local model's vectors, repeated: twice the dimensions, the same similarities."""

    model = "repeated"

    def __init__(self, embedder: Embedder) -> None:
        """Repeat the vectors of `embedder`."""
        self._embedder = embedder
        self.dimension = 2 * embedder.dimension
        self.batch_size = embedder.batch_size

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts."""
        return [repeated(vector) for vector in await self._embedder.embed(texts, purpose)]

    async def aclose(self) -> None:
        """Close the other embedder."""
        await self._embedder.aclose()


def repeated(vector: Vector) -> Vector:
    """A unit vector with twice the dimensions."""
    return tuple(number / math.sqrt(2) for number in (*vector, *vector))


async def measure(chunks: int, dimension: int, rounds: int) -> None:
    """Fill a base, and search it in every mode."""
    embedder: Embedder = LocalEmbedder()
    vectors = scifact_vectors()
    if dimension != embedder.dimension:
        embedder = RepeatedEmbedder(embedder)
        vectors = {text: repeated(vector) for text, vector in vectors.items()}
    embedder = CachingEmbedder(embedder, vectors)
    app = App(Settings(google_cloud_project=f"bench-search-{dimension}"), embedder=embedder)
    base = await fill_database(app.context(Caller(), Meter()), chunks, vectors)
    query_vectors = await embedder.embed(base.questions, Purpose.QUERY)
    floor, questions = FirestoreBaseline(app.connection.client, embedder), cycle(base.questions)
    queries = cycle(zip(base.questions, query_vectors, strict=True))

    def searching(mode: Mode) -> Measurement:
        async def search() -> None:
            ctx = app.context(_CALLER, Meter())
            await search_kb(In(query=next(questions), mode=mode), ctx)

        return timed(search)

    measurements = {"floor of hybrid": timed(lambda: floor.search(next(queries)))}
    measurements |= {mode.value: searching(mode) for mode in Mode}
    seconds_by_mode = await interleaved(measurements, rounds, warm_up=2)
    rows = [
        [
            name,
            milliseconds(seconds),
            f"{1000 * max(seconds):.0f}",
            f"{ratio(seconds, seconds_by_mode['floor of hybrid']):.2f}",
        ]
        for name, seconds in seconds_by_mode.items()
    ]
    columns = ["", "p50 ms", "max ms", "to floor"]
    print_table(f"search_kb on {base.name}, {dimension} dimensions", columns, rows)
    await app.aclose()


async def _main(rounds: int) -> None:
    for chunks, dimension in BASES:
        await measure(chunks, dimension, rounds)


if __name__ == "__main__":
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
    except EmulatorMissing as error:
        sys.exit(str(error))

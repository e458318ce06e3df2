"""Embedding on this machine, without a network, a key or costs.

A vector has two halves (`shared.ai.vector_halves`): one of all-MiniLM-L6-v2, which reads English
well and little else, and one of the universal sentence encoder, which reads sixteen languages. A
passage gets both. A query gets those that it is compared by, so an English base never loads the
second model for a query.

The following measurements, on two cores, led to the choices made here.

For the English half, texts are truncated at 256 tokens, about 1,100 characters of English. The
table shows the nDCG@10 of SciFact's 809 training claims over 5,183 abstracts, 71% of which are
longer than that:

                                    all    relevant abstract long (618)   short (191)
    first 256 tokens              0.661                           0.672         0.624
    first 512 tokens              0.659                           0.665         0.642
    256-token windows, averaged   0.659                           0.679         0.594

Neither alternative is better over all claims, and a text of 512 tokens takes them 2.8 and 2 times
as long. Truncation costs accuracy at the end of a text: for abstracts of 300 to 384 tokens, queried
by their last sentence, the mean reciprocal rank is 0.68, and 0.81 with either alternative. Queried
by their first sentence, it is 0.73, and 0.71 and 0.72 with the alternatives. So chunks should fit
into 256 tokens.

Two texts are embedded at the same time, with one thread each. Alternatively, two threads could
embed one text at a time, and could spin while they wait:

                               16 tokens   256 tokens   texts of 256 tokens per second
    one thread per text           4.7 ms      43.4 ms                               46
    two spinning threads          2.6 ms      24.7 ms                               44
    two threads without spin      3.7 ms      27.5 ms                               40

Two threads for one text are slower in total, because they wait for each other. On a busy machine,
spinning halves the speed.

Texts are not embedded in batches. In batches of 4, 8 and 16 texts of similar length, padded to the
longest, a text of 240 tokens takes 1.17, 1.29 and 1.35 times as much CPU time. With two threads for
one text, it takes 1.15 times as much. The weights are int8, but the network computes in float32
near the peak of the CPU, so batches save nothing.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose, Vector, embedding_span, require_unicode
from shared.ai.retrying import run_concurrently
from shared.ai.vector_halves import (
    ENGLISH_DIMENSION,
    MULTILINGUAL_DIMENSION,
    TWO_HALVES,
    join_halves,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai._minilm import MiniLM
    from shared.ai._universal_encoder import UniversalEncoder


_WORKERS: Final = 2
"""This many texts are embedded at the same time, each in a thread."""
_MAX_QUEUED: Final = 2 * _WORKERS
"""A call queues at most this many texts. They keep the workers busy while the event loop does
something else, and are few enough that a query does not wait for all texts of a large batch."""


class LocalEmbedder:
    """Two embedding models in this process, each loaded for the first text that needs it.

    Separate worker threads embed, so that the event loop is not blocked. Queries have one of their
    own: behind the documents of a job, one waited for two texts, 0.5 s on a busy machine.
    """

    model = TWO_HALVES
    dimension = ENGLISH_DIMENSION + MULTILINGUAL_DIMENSION
    batch_size = 16

    def __init__(self) -> None:
        """Create the workers. Their threads and the models start with the first text."""
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="embedding")
        self._query_worker = ThreadPoolExecutor(1, thread_name_prefix="query-embedding")
        self._loading = Lock()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the beginning of each text. Return unit vectors, in the same order.

        Raises:
            InvalidInput: A text contains a lone surrogate.
        """
        require_unicode(texts)
        loop = asyncio.get_running_loop()
        workers = self._workers if purpose is Purpose.DOCUMENT else self._query_worker
        vectors: dict[int, Vector] = {}
        remaining = iter(enumerate(texts))

        async def embed_remaining() -> None:
            for position, text in remaining:
                vectors[position] = await loop.run_in_executor(workers, self._embed, text, purpose)

        with embedding_span("local", self, texts):
            await run_concurrently(embed_remaining() for _ in range(_MAX_QUEUED))
        return [vectors[position] for position in range(len(texts))]

    def load(self) -> None:
        """Load the English model, which most bases need first, or wait until it is loaded.

        Raises:
            PlatformFault: A file of the model is not the expected one.
        """
        self._load_english()

    def load_multilingual(self) -> None:
        """Load the multilingual model, or wait until it is loaded.

        Raises:
            PlatformFault: A file of the model is not the expected one.
        """
        self._load_multilingual()

    async def aclose(self) -> None:
        """Stop the workers after their current texts."""
        for workers in (self._workers, self._query_worker):
            workers.shutdown(wait=False, cancel_futures=True)

    def _embed(self, text: str, purpose: Purpose) -> Vector:
        english: Vector = (0.0,) * ENGLISH_DIMENSION
        multilingual: Vector = (0.0,) * MULTILINGUAL_DIMENSION
        if purpose is not Purpose.FOREIGN_QUERY:
            english = self._load_english().embed(text)
        if purpose is not Purpose.ENGLISH_QUERY:
            multilingual = self._load_multilingual().embed(text)
        return join_halves(english, multilingual)

    def _load_english(self) -> MiniLM:
        with self._loading:
            return self._english

    def _load_multilingual(self) -> UniversalEncoder:
        with self._loading:
            return self._multilingual

    @cached_property
    def _english(self) -> MiniLM:
        """The model of the English half, which is imported and loaded when it is first used."""
        from shared.ai._minilm import MiniLM

        return MiniLM()

    @cached_property
    def _multilingual(self) -> UniversalEncoder:
        """The other model, likewise."""
        from shared.ai._universal_encoder import UniversalEncoder

        return UniversalEncoder()

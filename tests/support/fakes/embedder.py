"""An embedder without a model: texts are similar if they share words."""

import asyncio
import hashlib
import random
from collections.abc import Sequence
from functools import cache
from typing import Final

from shared.ai.embedding import Purpose, Vector, require_unicode, unit_vector
from shared.core.errors import Unavailable

DIMENSION: Final = 64
"""The dimension of vectors, in which random directions are nearly orthogonal."""


class WordEmbedder:
    """An embedder that gives each word a random direction. A text's vector is the sum of its words.

    Attributes:
        is_down: Whether the embedder is unavailable.
        is_silent: Whether the embedder never answers.
    """

    model = "words"
    dimension = DIMENSION
    batch_size = 200

    def __init__(self) -> None:
        """Embed all texts until a test changes an attribute."""
        self.is_down = False
        self.is_silent = False

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - Embedder's signature
        """Embed each text.

        Raises:
            Unavailable: The embedder is down.
        """
        if self.is_down:
            raise Unavailable("The embedding provider does not answer.", retry_after=5)
        if self.is_silent:
            await asyncio.Event().wait()
        require_unicode(texts)
        return [_make_vector(text) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""


def compute_similarity(first_vector: Sequence[float], second_vector: Sequence[float]) -> float:
    """Return the cosine similarity of two unit vectors, at least 0."""
    return max(0.0, sum(a * b for a, b in zip(first_vector, second_vector, strict=True)))


def _make_vector(text: str) -> Vector:
    directions = [_make_direction(word) for word in text.casefold().split()] or [
        _make_direction("")
    ]
    return unit_vector([sum(numbers) for numbers in zip(*directions, strict=True)], DIMENSION)


@cache
def _make_direction(word: str) -> tuple[float, ...]:
    seed = hashlib.sha256(word.encode()).digest()
    generator = random.Random(seed)  # noqa: S311 - no secret
    return tuple(generator.gauss() for _ in range(DIMENSION))

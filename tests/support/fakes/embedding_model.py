"""A fake embedding model with any name and dimension, for migrations from one model to another."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.ai.embedding import Purpose, Vector, unit_vector
from shared.core.errors import InvalidInput, Unavailable


@dataclass
class FakeEmbeddingModel:
    """A fake embedding model that counts what it embeds. Texts that share words are similar.

    Attributes:
        model: The name. Models with different names have different vectors for the same text.
        dimension: The dimension of the vectors.
        batch_size: The maximum number of texts in a call.
        is_down: Whether the model is unavailable.
        rejected_words: If not empty, texts that contain this are rejected.
        embedding_counts: The number of times that each document was embedded, by its text.
    """

    model: str
    dimension: int
    batch_size: int = 4
    is_down: bool = False
    rejected_words: str = ""
    embedding_counts: Counter[str] = field(default_factory=Counter)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed each text.

        Raises:
            Unavailable: The model is down.
            InvalidInput: A text contains the rejected words.
        """
        if self.is_down:
            raise Unavailable("The embedding provider does not answer.", retry_after=5)
        if self.rejected_words and any(self.rejected_words in text for text in texts):
            raise InvalidInput("The model refuses text 0.", details={"text": 0})
        if purpose is Purpose.DOCUMENT:
            self.embedding_counts.update(texts)
        return [self._make_vector(text) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""

    def _make_vector(self, text: str) -> Vector:
        words = text.casefold().split() or [""]
        directions = zip(*map(self._make_direction, words), strict=True)
        return unit_vector([sum(numbers) for numbers in directions], self.dimension)

    def _make_direction(self, word: str) -> list[float]:
        generator = random.Random(f"{self.model} {word}")  # noqa: S311 - no secret
        return [generator.gauss() for _ in range(self.dimension)]

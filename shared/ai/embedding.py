"""Text to unit vectors: what every embedding provider promises."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

Vector = tuple[float, ...]
"""A unit vector: its Euclidean norm is 1."""


class Purpose(StrEnum):
    """What a text is embedded for; some models embed questions and passages differently."""

    DOCUMENT = "document"
    QUERY = "query"


class Embedder(Protocol):
    """A provider of embeddings.

    Attributes:
        model: The model's name and version; vectors of different models must never be compared.
        dimension: The length of its vectors.
        batch_size: How many texts it likes to be given at once.
    """

    model: str
    dimension: int
    batch_size: int

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed each text: one unit vector per text, in their order.

        Raises:
            Unavailable: The provider is down, slow or out of quota; `retry_after` says for how long.
            InvalidInput: The provider refuses a text for what it is.
            PlatformFault: The provider answered something that isn't one vector per text.
        """
        ...

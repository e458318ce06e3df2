"""Text to unit vectors: what every embedding provider promises, and checks that they share."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from shared.core.errors import CarrelError, InvalidInput, PlatformFault

if TYPE_CHECKING:
    from collections.abc import Sequence

Vector = tuple[float, ...]
"""A unit vector: its Euclidean norm is 1."""
PROBE: Final = "carrel"
"""Every provider that works at all embeds this text."""


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
        """Embed each text: one unit vector per text, in their order; all of them or an error.

        Raises:
            Unavailable: It is down, slow or out of quota; `retry_after` says for how long.
            InvalidInput: It refuses a text for what it is; `details["text"]` is its index.
            PlatformFault: It answered something that isn't one vector per text, or is
                set up wrongly.
        """
        ...

    async def aclose(self) -> None:
        """Give back what it holds: connections, threads."""
        ...


async def require_provider(embedder: Embedder, cause: CarrelError) -> None:
    """Embed a harmless text, to learn whether a failure is the fault of the text that failed.

    Raises:
        CarrelError: `cause`; the provider fails for this text too.
    """
    try:
        await embedder.embed([PROBE], Purpose.DOCUMENT)
    except CarrelError:
        raise cause from None


def unit_vector(values: Sequence[float], dimension: int) -> Vector:
    """Scale what a model answered to length 1.

    Raises:
        PlatformFault: It has another dimension, or no direction: zero, NaN or infinite.
    """
    norm = math.hypot(*values)
    if len(values) != dimension:
        raise PlatformFault(f"The embedding model answered {len(values)} numbers, not {dimension}.")
    if not math.isfinite(norm) or norm == 0:
        raise PlatformFault("The embedding model answered a vector without a direction.")
    return tuple(value / norm for value in values)


def require_unicode(texts: Sequence[str]) -> None:
    """Refuse text that no encoding can carry.

    Raises:
        InvalidInput: A text holds half of a surrogate pair, as badly cut UTF-16 does.
    """
    for index, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"Text {index} holds half a character at position {error.start}: cut text between "
                "whole characters.",
                details={"text": index, "position": error.start},
            ) from None

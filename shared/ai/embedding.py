"""The interface of embedding providers, which turn texts into unit vectors, and common checks."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from shared.core.errors import CarrelError, InvalidInput, PlatformFault
from shared.core.telemetry import SpanKind, span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from shared.core.telemetry import TraceSpan

Vector = tuple[float, ...]
"""A unit vector: its Euclidean norm is 1."""
PROBE: Final = "carrel"
"""A harmless text that every working provider embeds."""


class Purpose(StrEnum):
    """The purpose of an embedding. Some models embed queries and passages differently.

    The last two are only for models with two halves (`shared.ai.vector_halves`), and need one each.
    """

    DOCUMENT = "document"
    QUERY = "query"
    ENGLISH_QUERY = "English query of English texts"
    FOREIGN_QUERY = "query in another language than English"


class Embedder(Protocol):
    """An embedding provider.

    Attributes:
        model: The model's name and version. Vectors of different models must not be compared.
        batch_size: The preferred number of texts per call.
    """

    model: str
    dimension: int
    batch_size: int

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed texts, and return one unit vector for each, in the same order.

        Raises:
            Unavailable: The provider is down, slow or out of quota; `retry_after` is set.
            InvalidInput: The provider rejects a text; `details["text"]` is its index.
            PlatformFault: The provider does not answer with one vector for each text, or is
                configured wrongly.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...


def embedding_span(
    provider: str, embedder: Embedder, texts: Sequence[str]
) -> AbstractContextManager[TraceSpan]:
    """Record an embedding as a span, by OpenTelemetry's conventions for generative AI.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#embeddings
    """
    return span(
        f"embeddings {embedder.model}",
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": embedder.model,
            "gen_ai.embeddings.dimension.count": embedder.dimension,
            "carrel.embedding.texts": len(texts),
        },
        kind=SpanKind.CLIENT,
    )


def record_input_tokens(request: TraceSpan, tokens: int) -> None:
    """Add the tokens that the provider counted to the span of an embedding, if it counted any."""
    request.set({"gen_ai.usage.input_tokens": tokens or None})


async def raise_if_provider_fails(embedder: Embedder, cause: CarrelError) -> None:
    """Embed a harmless text, to find out whether the provider or a text caused a failure.

    Raises:
        CarrelError: The provider fails for the harmless text, too. The error is `cause`.
    """
    try:
        await embedder.embed([PROBE], Purpose.DOCUMENT)
    except CarrelError:
        raise cause from None


def unit_vector(values: Sequence[float], dimension: int) -> Vector:
    """Scale a model's vector to length 1.

    Raises:
        PlatformFault: The vector has another dimension, or is zero, NaN or infinite.
    """
    norm = math.hypot(*values)
    if len(values) != dimension:
        raise PlatformFault(f"The embedding model answered {len(values)} numbers, not {dimension}.")
    if not math.isfinite(norm) or norm == 0:
        raise PlatformFault("The embedding model answered a vector without a direction.")
    return tuple(value / norm for value in values)


def require_unicode(texts: Sequence[str]) -> None:
    """Check that all texts can be encoded.

    Raises:
        InvalidInput: A text contains half of a surrogate pair, as badly cut UTF-16 does.
    """
    for index, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"Text {index} has half a character at position {error.start}: cut texts between"
                " whole characters.",
                details={"text": index, "position": error.start},
            ) from None

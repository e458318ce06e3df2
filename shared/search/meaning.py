"""A question's vector, and the first of what it finds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic

from shared.core.errors import PlatformFault, RateLimited, Unavailable
from shared.core.log import describe, log
from shared.index.embedding_space import EmbeddingSpace, Moving
from shared.index.searchable import DocumentT

if TYPE_CHECKING:
    from shared.ai.embedding import Vector
    from shared.index.vector_index import Neighbour
    from shared.runtime.context import Deps
    from shared.search.corpus import Corpus
    from shared.search.ranking import Question

DENSE_POOL: Final = 50
"""Documents that the search by meaning brings."""


class NoMeaning(Enum):
    """Why meaning was left out, though it was asked for."""

    PROVIDER_UNAVAILABLE = auto()
    NOTHING_EMBEDDED = auto()
    EMBEDDED_ANEW = auto()
    OUT_OF_TIME = auto()


@dataclass(frozen=True, slots=True)
class Meaning(Generic[DocumentT]):
    """What is known of a question's meaning.

    Attributes:
        vector: Its vector; None where words alone are searched.
        nearest: The documents nearest to it, where everything is searched: that has to know nothing
            of the lists.
        missing: Why there is no vector; None where there is one, or none was asked for.
    """

    vector: Vector | None = None
    nearest: list[Neighbour[DocumentT]] = field(default_factory=list)
    missing: NoMeaning | None = None


async def meaning_of(
    question: Question, corpus: Corpus[DocumentT], deps: Deps
) -> Meaning[DocumentT]:
    """Embed the question, and search with it at once where there is no filter. One round trip.

    Raises:
        Unavailable: The embedding provider is down, or everything is being embedded anew, and only
            meaning was asked for.
        RateLimited: It throttles the caller's own key. The same.
        PlatformFault: It is set up wrongly, or answers no vector. The same.
        Conflict: The database is embedded with another model.
    """
    if not question.by_meaning:
        return Meaning()
    try:
        vector, embedded = await asyncio.gather(
            _vector(question, deps), EmbeddingSpace(deps.database).expect(deps.embedder)
        )
    except Moving:
        if not question.by_words:
            raise
        return Meaning(missing=NoMeaning.EMBEDDED_ANEW)
    if vector is None:
        return Meaning(missing=NoMeaning.PROVIDER_UNAVAILABLE)
    if not embedded:
        return Meaning(missing=NoMeaning.NOTHING_EMBEDDED)
    if not question.selection.everything:
        return Meaning(vector)
    return Meaning(vector, await corpus.documents.nearest(vector, DENSE_POOL))


async def _vector(question: Question, deps: Deps) -> Vector | None:
    """The question's vector; None where the provider fails and words can do without."""
    try:
        return await deps.query_vector(question.text)
    except (PlatformFault, RateLimited, Unavailable) as error:
        if not question.by_words:
            raise
        if isinstance(error, PlatformFault):
            log.error("question_not_embedded", **describe(error))
        return None

"""A document that may answer a question, with all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from shared.index.searchable import DocumentT


@dataclass(frozen=True, slots=True)
class Candidate(Generic[DocumentT]):
    """A document to rank.

    Attributes:
        id: Which.
        bm25: Its BM25 score; 0 where it holds none of the question's terms.
        held: The question's terms that it holds, as far as is known.
        document: The document, which passes the filters; None while it was not read: whether it
            still is there and passes is then to be seen.
        similarity: Cosine similarity with the question; None where it was not compared, or has no
            vector yet.
        near: Whether the search by meaning brought it.
        score: What it is ranked by; 0 before that.
    """

    id: str
    bm25: float
    held: frozenset[str]
    document: DocumentT | None = None
    similarity: float | None = None
    near: bool = False
    score: float = 0.0

"""The knowledge base as a corpus: what hybrid search and lists of chunks read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.chunk_repository import Chunks
from shared.search.corpus import DatedCorpus

if TYPE_CHECKING:
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk


def knowledge(database: Database) -> DatedCorpus[Chunk]:
    """The knowledge base."""
    return DatedCorpus(Chunks(database), InvertedIndex(database, KNOWLEDGE))

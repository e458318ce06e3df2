"""The knowledge base as a corpus for search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.chunk_repository import Chunks
from shared.search.corpus import DatedCorpus

if TYPE_CHECKING:
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk


def get_knowledge_corpus(database: Database) -> DatedCorpus[Chunk]:
    """Return the corpus of the knowledge base: its chunks and their index."""
    return DatedCorpus(Chunks(database), InvertedIndex(database, KNOWLEDGE))

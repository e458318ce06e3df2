"""Golden queries, by which search is measured every night, and the scores of past nights.

Each query has one passage that answers it, so the scores are:

    recall@10 = the share of queries whose passage is among the first ten results
    MRR@10 = the mean of 1 / rank of the passage, or 0 if it is not among the first ten results

MRR: E. M. Voorhees, "The TREC-8 Question Answering Track Report", TREC-8 (1999), 77.

`meta/golden_queries` has two lists of `{query, chunk_id}`: `queries`, which the health job chooses,
and `given`, the user's own queries, which the job uses but never writes. `meta/health` has the
scores of the last thirty nights.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.codec import Codec
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import READ_FIELDS, to_chunk

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk

TOP_K: Final = 10
"""The number of results of a search in which the passage is looked for."""
BASELINE_NIGHTS: Final = 7
"""The number of previous nights with which a night is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyScore:
    """The score of one night.

    Attributes:
        date: The owner's day: YYYY-MM-DD.
        ranks: The rank of each query's passage, by the query's name; 0 if it was not found.
        model: The embedding model.
        milliseconds: The median duration of a search, in milliseconds.
    """

    date: str
    ranks: Mapping[str, int]
    model: str
    milliseconds: float

    @property
    def recall(self) -> float:
        """Recall@10."""
        return self.compute_recall(self.ranks)

    @property
    def mrr(self) -> float:
        """MRR@10."""
        return sum(1 / rank for rank in self.ranks.values() if rank) / len(self.ranks)

    def compute_recall(self, names: Collection[str]) -> float:
        """Return recall@10 over some of the queries."""
        return sum(self.ranks[name] > 0 for name in names) / len(names)

    def compute_gain(self, previous: NightlyScore) -> float | None:
        """Return the gain in recall@10 since a previous night, over the queries of both nights.

        Queries change with their passages, and the scores of different queries are not comparable.
        Return None if the nights have no query in common.
        """
        common = self.ranks.keys() & previous.ranks.keys()
        return self.compute_recall(common) - previous.compute_recall(common) if common else None


def compute_gain_since_last_week(
    night: NightlyScore, previous: Sequence[NightlyScore]
) -> float | None:
    """Return the median of the gains in recall@10 since the previous BASELINE_NIGHTS nights.

    Return None if no gain can be computed.

    Args:
        night: The night to compare.
        previous: The previous nights, the latest last.
    """
    gains = [night.compute_gain(other) for other in previous[-BASELINE_NIGHTS:]]
    comparable = [gain for gain in gains if gain is not None]
    return median(comparable) if comparable else None


MAX_NIGHTS: Final = 30
"""The number of nights whose scores are stored."""
SAMPLE_SIZE: Final = 5
"""The number of chunks that are read to choose one golden query."""
_QUERIES: Final = ("meta", "golden_queries")
_NIGHTS: Final = ("meta", "health")


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A query, and the chunk that answers it."""

    query: str
    chunk_id: str

    @property
    def name(self) -> str:
        """A name that reveals no private words: a hash of the query and the chunk id."""
        text = f"{self.chunk_id}\n{self.query}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_NIGHT: Final = Codec(NightlyScore)
_GOLDEN: Final = Codec(GoldenQuery)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """The golden queries.

    Attributes:
        given: The queries of the user.
        chosen: The queries that the job chose.
    """

    given: tuple[GoldenQuery, ...] = ()
    chosen: tuple[GoldenQuery, ...] = ()


class SearchHealth:
    """Stores the golden queries, and the scores of past nights."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def load_golden_set(self) -> GoldenSet:
        """Load the golden queries. Costs one round trip."""
        snapshot = await self._database.get(self._database.document(*_QUERIES))
        data = snapshot.to_dict() or {}
        return GoldenSet(_read(data.get("given")), _read(data.get("queries")))

    async def store_chosen(self, chosen: Sequence[GoldenQuery]) -> None:
        """Store the queries that the job chose. Costs one round trip."""
        data = {"queries": [_GOLDEN.write(golden) for golden in chosen]}
        reference = self._database.document(*_QUERIES)
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def find_existing(self, chunk_ids: Sequence[str]) -> set[str]:
        """Return the ids of the chunks that exist and are not deleted. Costs one round trip."""
        references = [self._database.document(CHUNKS, chunk_id) for chunk_id in chunk_ids]
        chunks = await self._database.get_all(references, ["content_hash"])
        return {chunk.id for chunk in chunks if chunk.to_dict()}

    async def load_chunks_from(self, point: str) -> list[Chunk]:
        """Load up to SAMPLE_SIZE chunks with the next content hashes from `point` on.

        Chunks that are not searchable yet are left out. Hashes are uniformly distributed, so a
        random point makes every chunk equally likely. Costs one round trip.
        """
        snapshots = await self._database.find(from_query(self._database.client, point))
        documents = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return [
            to_chunk(chunk_id, data)
            for chunk_id, data in documents.items()
            if not _is_pending(data)
        ]

    async def load_nights(self) -> list[NightlyScore]:
        """Load the scores of past nights, the latest last. Costs one round trip."""
        snapshot = await self._database.get(self._database.document(*_NIGHTS))
        return [_NIGHT.load(night) for night in (snapshot.to_dict() or {}).get("nights", [])]

    async def store_nights(self, nights: Sequence[NightlyScore]) -> None:
        """Store the scores of the last MAX_NIGHTS of these nights, which have the latest last."""
        data = {"nights": [_NIGHT.write(night) for night in nights[-MAX_NIGHTS:]]}
        reference = self._database.document(*_NIGHTS)
        await self._database.commit([lambda batch: batch.set(reference, data)])


def from_query(client: AsyncClient, point: str) -> AsyncQuery:
    """Build the query for chunks by content hash, from a point on. Deleted chunks have no hash."""
    start = FieldFilter("content_hash", ">=", point)
    query = client.collection(CHUNKS).where(filter=start).order_by("content_hash")
    return query.select([*READ_FIELDS, "pending"]).limit(SAMPLE_SIZE)


def _read(data: Any) -> tuple[GoldenQuery, ...]:
    return tuple(_GOLDEN.load(golden) for golden in data or ())


def _is_pending(data: dict[str, Any]) -> bool:
    """Return whether a chunk's current text is not searchable yet."""
    return bool({"embed", "index"} & (data.get("pending") or {}).keys())

"""The questions that measure search every night, their score, and the nights that are kept.

How well search finds passages of which it is known that they answer a query.

    recall@10 = share of the queries whose passage is among the first ten
    MRR@10 = mean of 1 / rank of that passage, 0 where it is not among the first ten

MRR: E. M. Voorhees, "The TREC-8 Question Answering Track Report", TREC-8 (1999), 77.

`meta/golden_queries` and `meta/health`: what search is measured with, and how it did.

`meta/golden_queries` holds `queries`, which the health job chooses, and `given`, a list of
`{query, chunk_id}` for whoever wants others: the job measures with these too, and never writes
them. `meta/health` holds the last thirty nights.
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
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk

TOP: Final = 10
WEEK: Final = 7
"""Nights with which one is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyScore:
    """What was measured in one night.

    Attributes:
        date: The day, in UTC: YYYY-MM-DD.
        ranks: Each query, by its name, with the rank of its passage; 0 if that was not found.
        model: The embedding model.
        milliseconds: What a search took in the middle.
    """

    date: str
    ranks: Mapping[str, int]
    model: str
    milliseconds: float

    @property
    def recall(self) -> float:
        """Recall@10."""
        return self.recall_of(self.ranks)

    @property
    def mrr(self) -> float:
        """MRR@10."""
        return sum(1 / rank for rank in self.ranks.values() if rank) / len(self.ranks)

    def recall_of(self, names: Collection[str]) -> float:
        """Recall@10 over some of its queries."""
        return sum(self.ranks[name] > 0 for name in names) / len(names)

    def gained(self, former: NightlyScore) -> float | None:
        """How much recall@10 rose since another night, over the queries of both; None: over none.

        Queries come and go with their passages: a score of others tells nothing.
        """
        both = self.ranks.keys() & former.ranks.keys()
        return self.recall_of(both) - former.recall_of(both) if both else None


def gained_since_a_week(night: NightlyScore, before: Sequence[NightlyScore]) -> float | None:
    """How much recall@10 rose against the week before, in the median of its nights.

    Args:
        night: Which.
        before: The nights before it, the latest last.
    """
    gains = [night.gained(former) for former in before[-WEEK:]]
    known = [gain for gain in gains if gain is not None]
    return median(known) if known else None


KEPT: Final = 30
"""Nights that are kept."""
LOOKED_AT: Final = 5
"""Chunks among which one is chosen."""
_QUERIES: Final = ("meta", "golden_queries")
_NIGHTS: Final = ("meta", "health")


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A query, and the chunk that answers it."""

    query: str
    chunk_id: str

    @property
    def name(self) -> str:
        """What it is called where its words may not stand."""
        told = f"{self.chunk_id}\n{self.query}"
        return hashlib.sha256(told.encode()).hexdigest()[:12]


_NIGHT: Final = Codec(NightlyScore)
_GOLDEN: Final = Codec(GoldenQuery)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """What search is measured with.

    Attributes:
        given: What somebody gave.
        chosen: What the job chose.
    """

    given: tuple[GoldenQuery, ...] = ()
    chosen: tuple[GoldenQuery, ...] = ()


class SearchHealth:
    """Keeps what search is measured with, and what was measured."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database

    async def golden(self) -> GoldenSet:
        """The queries, as they stand. One round trip."""
        found = await self._database.get(self._database.document(*_QUERIES))
        data = found.to_dict() or {}
        return GoldenSet(_read(data.get("given")), _read(data.get("queries")))

    async def choose(self, chosen: Sequence[GoldenQuery]) -> None:
        """Measure with these from now on, beside those that somebody gave."""
        data = {"queries": [_GOLDEN.write(golden) for golden in chosen]}
        reference = self._database.document(*_QUERIES)
        await self._database.commit([lambda batch: batch.set(reference, data, merge=True)])

    async def present(self, chunk_ids: Sequence[str]) -> set[str]:
        """Those of these chunks that there are. One round trip."""
        references = [self._database.document(CHUNKS, each) for each in chunk_ids]
        found = await self._database.get_all(references, ["content_hash"])
        return {each.id for each in found if each.to_dict()}

    async def chunks_from(self, point: str) -> list[Chunk]:
        """Some chunks that can be found, by the hash of their texts, from one on. One round trip.

        Hashes lie evenly: whichever the point, each chunk is as likely.
        """
        found = await self._database.find(from_query(self._database.client, point))
        data = {each.id: each.to_dict() or {} for each in found}
        return [to_chunk(name, each) for name, each in data.items() if not _waits(each)]

    async def nights(self) -> list[NightlyScore]:
        """What was measured, the latest last. One round trip."""
        found = await self._database.get(self._database.document(*_NIGHTS))
        return [_NIGHT.load(night) for night in (found.to_dict() or {}).get("nights", [])]

    async def record(self, nights: Sequence[NightlyScore]) -> None:
        """Keep what was measured, the latest last."""
        data = {"nights": [_NIGHT.write(night) for night in nights[-KEPT:]]}
        reference = self._database.document(*_NIGHTS)
        await self._database.commit([lambda batch: batch.set(reference, data)])


def from_query(client: AsyncClient, point: str) -> AsyncQuery:
    """Chunks by the hash of their texts; those that were deleted have none."""
    from_there = FieldFilter("content_hash", ">=", point)
    query = client.collection(CHUNKS).where(filter=from_there).order_by("content_hash")
    return query.select([*READ_FIELDS, "pending"]).limit(LOOKED_AT)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from_query(client, "a")


def _read(data: Any) -> tuple[GoldenQuery, ...]:
    return tuple(_GOLDEN.load(golden) for golden in data or ())


def _waits(data: dict[str, Any]) -> bool:
    """Whether search cannot find a chunk yet, or not by all that it says now."""
    return bool({"embed", "index"} & (data.get("pending") or {}).keys())

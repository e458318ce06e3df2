"""How many extractions there are that lists show."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.domain.extraction import ExtractionType, facet
from shared.store.extracted import COLLECTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.firestore.database import Database


async def count_extractions(database: Database) -> dict[ExtractionType, int]:
    """How many there are of each type. One round trip."""
    queries = [shown_query(database.client, kind) for kind in ExtractionType]
    counts = await asyncio.gather(*map(database.count, queries))
    return dict(zip(ExtractionType, counts, strict=True))


def shown_query(client: AsyncClient, kind: ExtractionType) -> AsyncQuery:
    """The extractions of a type, but for those that repeat another."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("facets", "array_contains", facet(kind))
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield shown_query(client, ExtractionType.DECISION)

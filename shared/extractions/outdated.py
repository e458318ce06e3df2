"""Chunks whose extractions are stored in an older shape than the one that is read now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.extractions.model import SCHEMA_VERSION
from shared.knowledge.chunk_repository import COLLECTION, step_pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

PAGE: Final = 200
"""Chunks that are put back into the queue in one commit."""
_VERSION: Final = "extraction_schema"


class Outdated:
    """Finds them, and has them read again."""

    def __init__(self, database: Database, version: int = SCHEMA_VERSION) -> None:
        """Look for what is older than `version` in this database."""
        self._database = database
        self._version = version

    async def read_again(self, now: datetime) -> int:
        """Let all of them wait to be read; return how many there were. None costs one read.

        Each forgets its version in the same commit: it is put back once, and killed anywhere, the
        next run goes on with the others.
        """
        count = 0
        while found := await self._database.find(
            outdated_query(self._database.client, self._version)
        ):
            count += await self._database.commit_skipping_conflicts(
                [_again(each, now) for each in found]
            )
        return count


def outdated_query(client: AsyncClient, version: int) -> AsyncQuery:
    """Chunks whose extractions are older than a version."""
    older = FieldFilter(_VERSION, "<", version)
    return client.collection(COLLECTION).where(filter=older).select(["deleted_at"]).limit(PAGE)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield outdated_query(client, 1)


def _again(chunk: DocumentSnapshot[Any], now: datetime) -> Write:
    change = {_VERSION: DELETE_FIELD}
    if "deleted_at" not in (chunk.to_dict() or {}):
        change |= step_pending("extract", now)
    option = LastUpdateOption(chunk.update_time)
    return lambda batch: batch.update(chunk.reference, change, option)

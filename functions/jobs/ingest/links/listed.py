"""Stores the links that files list. Their pages are fetched only when somebody asks for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from shared.core.blocks import split
from shared.core.installation import carrel
from shared.firestore.documents import Reference
from shared.knowledge import forgotten_repository, source_repository
from shared.links import repository
from shared.links.repository import build_listing_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.jobs.ingest.readers.source_file import LinkList
    from shared.firestore.database import Database
    from shared.links.model import Link
    from shared.runtime.job import Report

_BATCH_SIZE: Final = 200
_COLLECTIONS: Final = (
    repository.COLLECTION,
    source_repository.COLLECTION,
    forgotten_repository.COLLECTION,
)
"""A link with a document in one of these collections is not new."""


async def store_link_lists(lists: Sequence[LinkList], database: Database, report: Report) -> None:
    """Store the links that are new. Those that were saved, stored or forgotten stay as they are."""
    counts: Counter[str] = Counter()
    for links in lists:
        for block in split(links.links, _BATCH_SIZE):
            counts[links.name] += await _store(block, database)
    if counts.total():
        report.counts["links listed"] += counts.total()
        names = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
        report.note += (
            f" New links: {names}. They are not fetched; to fetch them: {carrel('links fetch')}"
        )


async def _store(links: Sequence[Link], database: Database) -> int:
    references = [Reference(name, link.source_id) for name in _COLLECTIONS for link in links]
    stored_ids = {document.id for document in await database.get_all(references, ["state"])}
    new = [build_listing_write(link) for link in links if link.source_id not in stored_ids]
    return await database.commit_skipping_conflicts(new)

"""Writes with a precondition, and groups of writes that belong together.

A write is a function that adds a change to a batch (`shared.firestore.database`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud.firestore import LastUpdateOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.cloud.firestore import AsyncWriteBatch, DocumentSnapshot

    from shared.firestore.database import Write


def put_if_unchanged(snapshot: DocumentSnapshot[Any], values: dict[str, Any]) -> Write:
    """Build the write that puts these fields into a document, and keeps all other fields.

    The write fails if the document has changed since it was read. If it did not exist then, the
    write creates it.

    Args:
        snapshot: The document as it was read.
        values: The new values by field name.
    """
    if not snapshot.exists:
        return lambda batch: batch.create(snapshot.reference, values)
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.update(snapshot.reference, values, option)


def delete_if_unchanged(snapshot: DocumentSnapshot[Any]) -> Write:
    """Return the write that deletes a document. It fails if the document has changed since."""
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.delete(snapshot.reference, option)


def combine_writes(writes: Sequence[Write]) -> Write:
    """Combine several writes into one, which is never split across commits."""

    def add(batch: AsyncWriteBatch) -> None:
        for write in writes:
            write(batch)

    return add

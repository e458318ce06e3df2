"""Guarded writes: what was decided on what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud.firestore import LastUpdateOption

if TYPE_CHECKING:
    from google.cloud.firestore import DocumentSnapshot

    from shared.firestore.database import Write


def put_if_unchanged(seen: DocumentSnapshot[Any], values: dict[str, Any]) -> Write:
    """Write these fields of a document, unless it has changed since it was seen."""
    if not seen.exists:
        return lambda batch: batch.create(seen.reference, values)
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.update(seen.reference, values, option)

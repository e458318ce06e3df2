"""Writing what was decided on what was read, and reading what another version of us wrote."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from google.cloud.firestore import LastUpdateOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.cloud.firestore import DocumentSnapshot

    from shared.firestore.database import Write


def put(seen: DocumentSnapshot[Any], values: dict[str, Any]) -> Write:
    """Write these fields of a document, unless it has changed since it was seen."""
    if not seen.exists:
        return lambda batch: batch.create(seen.reference, values)
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.update(seen.reference, values, option)


def known(kind: type[Any], data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of the fields of a document those that a dataclass has.

    A newer version of us may have written more: after a rollback its documents are read all the
    same.
    """
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in (data or {}).items() if name in names}

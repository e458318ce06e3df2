"""The writes by which documents enter the lists, change in them and leave them.

They add to what is there and read nothing, so that several writers do not undo one another: none of
them has to know what the others write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.cloud.firestore import Increment

from shared.store.list_changes import list_changes, total_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database, Write
    from shared.store.index_lists import IndexNames, ListName
    from shared.store.list_changes import Difference, ListChange


def list_writes(database: Database, names: IndexNames, difference: Difference) -> list[Write]:
    """Bring the lists up to date with one document; nothing to write where nothing changes.

    `difference.before` must be what the lists know of the document by the time of the commit: the
    commit writes `difference.after` into the document too, on the condition that it is still as it
    was read.
    """
    lists = list_changes(names, [difference])
    writes = [list_write(database, name, change) for name, change in lists.items()]
    return writes + totals_writes(database, names, [difference])


def list_write(database: Database, name: ListName, change: ListChange) -> Write:
    """Merge a change into a list, which comes into being where it is missing."""
    reference, data = database.document(*name), change.document()
    return lambda batch: batch.set(reference, data, merge=True)


def totals_writes(
    database: Database, names: IndexNames, differences: Sequence[Difference]
) -> list[Write]:
    """Add to the totals; no write where they stay as they are."""
    counts = total_changes(differences)
    data = {name: Increment(count) for name, count in counts.items()}
    reference = database.document(*names.totals)
    return [lambda batch: batch.set(reference, data, merge=True)] if data else []

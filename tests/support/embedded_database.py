"""The embedded Firestore for tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY_INDEX: Final = Definitions(builds_missing=True)


@contextmanager
def open_any_index(folder: Path) -> Iterator[Databases]:
    """Open the databases of a folder, which have any index that a query needs."""
    databases = Databases(folder, lambda _: ANY_INDEX, durable=False)
    yield databases
    databases.close()

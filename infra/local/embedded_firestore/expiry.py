"""The deletion of documents whose time has come, by the fields that the definitions name."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from infra.local.embedded_firestore import protos
from infra.local.embedded_firestore.commits import commit
from infra.local.embedded_firestore.documents import get_value
from infra.local.embedded_firestore.protos import DocumentProto
from infra.local.embedded_firestore.storage import BATCH, START
from infra.local.embedded_firestore.values import decode_name

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from infra.local.embedded_firestore.documents import Path
    from infra.local.embedded_firestore.storage import Place, Store

SWEEP_SECONDS: Final = 86_400
"""Expired documents are deleted once in this time, after the next commit."""
_logger: Final = logging.getLogger(__name__)


class Expiry:
    """The deletion of a database's expired documents, in steps between commits."""

    def __init__(self, store: Store, root: str, writing: Executor) -> None:
        """Delete nothing yet.

        Args:
            store: The database.
            root: The name of its root, which the names of documents begin with.
            writing: The thread of commits.
        """
        self._store = store
        self._root = root
        self._writing = writing
        self._next = 0.0

    def sweep_if_due(self) -> None:
        """Delete expired documents in the thread of commits, unless that was done today."""
        if self._store.definitions.ttl and time.monotonic() >= self._next:
            self._next = time.monotonic() + SWEEP_SECONDS
            self._writing.submit(self._begin)

    def _begin(self) -> None:
        now = int(time.time())
        with self._store.write():
            if now - self._store.get_meta(self._store.writer, "swept") < SWEEP_SECONDS:
                return  # another process did
            self._store.set_meta("swept", now)
        for collection, path in self._store.definitions.ttl:
            self._sweep(collection, path, START)

    def _sweep(self, collection: str, path: Path, after: Place) -> None:
        """Delete the expired ones of the next documents of a collection."""
        now = time.time_ns() // 1_000
        with self._store.write():
            rows = self._store.read_batch(collection, after)
            writes = [
                protos.WriteProto(delete=f"{self._root}/{row.path}/{decode_name(row.name)}")
                for row in rows
                if has_expired(get_value(DocumentProto.FromString(row.body).fields, path), now)
            ]
            if writes:
                commit(self._store, self._root, writes)
                _logger.info("Deleted %d expired documents of %s.", len(writes), collection)
        if len(rows) == BATCH:
            self._writing.submit(self._sweep, collection, path, rows[-1].place)


def has_expired(value: Any, now: int) -> bool:
    """Return whether a value of a TTL field is a time that has come, in microseconds."""
    return (
        value is not None
        and value.WhichOneof("value_type") == "timestamp_value"
        and value.timestamp_value.ToMicroseconds() <= now
    )

"""Transactions: reads of one moment, which must still be true at the commit.

Nothing is locked. A transaction that reads and writes notes what it has read; the commit reads
again and refuses if anything differs, so that the client tries anew. A query that would now find
another document differs, too.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc

from infra.local.embedded_firestore.errors import FirestoreError, invalid_argument, unimplemented
from infra.local.embedded_firestore.scans import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import apsw

    from infra.local.embedded_firestore.storage import Store

    Read = Callable[[apsw.Connection], list[Any]]

MAX_SECONDS: Final = 270
"""An older transaction is forgotten. It keeps SQLite from truncating its log."""


@dataclass(slots=True)
class Transaction:
    """A transaction.

    Attributes:
        connection: A connection that sees the database as it was at the first read.
        started: When it began, by the monotonic clock.
        is_read_only: Whether it can commit no writes.
        reads: What it has read, each with a fingerprint of the results.
    """

    connection: apsw.Connection
    started: float
    is_read_only: bool
    reads: list[tuple[Read, bytes]] = field(default_factory=list)

    def read(self, read: Read) -> list[Any]:
        """Return the results of a read, and note them."""
        results = read(self.connection)
        self.reads.append((read, _get_fingerprint(results)))
        return results

    def restart(self) -> None:
        """See the database as it is now.

        Raises:
            FirestoreError: The transaction has read something before.
        """
        if self.reads:
            raise FirestoreError(grpc.StatusCode.ABORTED, "An index has been built. Try again.")
        self.connection.execute("ROLLBACK; BEGIN")

    def check(self, connection: apsw.Connection) -> None:
        """Raise an error unless all reads still have the same results.

        Raises:
            FirestoreError: They have not, or the transaction is read-only.
        """
        if self.is_read_only:
            raise invalid_argument("A read-only transaction cannot write.")
        for read, fingerprint in self.reads:
            if _get_fingerprint(read(connection)) != fingerprint:
                raise FirestoreError(
                    grpc.StatusCode.ABORTED,
                    "What the transaction has read was changed meanwhile. Try again.",
                )


class Transactions:
    """The open transactions of a database in this process."""

    def __init__(self, store: Store) -> None:
        """Open none."""
        self._store = store
        self._open: dict[bytes, Transaction] = {}

    def begin(self, options: Any) -> bytes:
        """Begin a transaction, and return its name."""
        if options.read_only.HasField("read_time"):
            raise unimplemented("read_time")
        now = time.monotonic()
        for name, transaction in list(self._open.items()):
            if now - transaction.started > MAX_SECONDS:
                self.end(name)
        connection = self._store.connect()
        connection.execute("BEGIN")
        self._store.get_meta(connection, "time")  # the first read takes the snapshot
        name = secrets.token_bytes(12)
        is_read_only = options.WhichOneof("mode") == "read_only"
        self._open[name] = Transaction(connection, now, is_read_only)
        return name

    def get(self, name: bytes) -> Transaction:
        """Return an open transaction."""
        if name not in self._open:
            raise invalid_argument("The referenced transaction has expired or is no longer valid.")
        return self._open[name]

    def end(self, name: bytes) -> None:
        """Forget a transaction."""
        self.get(name).connection.close()
        del self._open[name]

    def close(self) -> None:
        """Forget all transactions."""
        for name in list(self._open):
            self.end(name)


def _get_fingerprint(results: Iterable[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for result in results:
        identity = (result.path, result.updated) if isinstance(result, Row) else result
        digest.update(repr(identity).encode())
    return digest.digest()

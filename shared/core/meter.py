"""What a call costs, counted while it runs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Meter:
    """What a call cost.

    Attributes:
        documents_read: As Firestore bills documents: a missing one and an empty query count one.
            It bills the index entries that a vector query scans beside these.
        documents_written: Documents set, updated or deleted.
        input_tokens: What language models were given.
        output_tokens: What they wrote.
        commits: How often something was sent to be written, whatever came of it.
        round_trips: How many requests may have had to wait for one another: one more than the
            deepest that was answered when the last one began.
    """

    documents_read: int = 0
    documents_written: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    commits: int = 0
    round_trips: int = 0
    _answered: int = field(default=0, repr=False)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request; one that begins before another is answered cannot have waited for it."""
        depth = self._answered + 1
        self.round_trips = max(self.round_trips, depth)
        try:
            yield
        finally:
            self._answered = max(self._answered, depth)

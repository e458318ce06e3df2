"""The meter, which counts what a call costs while it runs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Meter:
    """The cost of a call, counted while it runs.

    Attributes:
        documents_read: Document reads as Firestore bills them: a missing document and an empty
            query count one. The index entries that a vector query scans are billed in addition.
        documents_written: Documents set, updated or deleted.
        input_tokens: Tokens sent to language models.
        output_tokens: Tokens written by language models.
        commits: Commits sent, whether or not they succeeded.
        round_trips: The longest chain of requests that may have waited for one another. A request
            counts as having waited for all requests that were answered before it began.
    """

    documents_read: int = 0
    documents_written: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    commits: int = 0
    round_trips: int = 0
    _answered: int = field(default=0, repr=False)

    def add(self, other: Meter) -> None:
        """Add the cost of another call."""
        self.documents_read += other.documents_read
        self.documents_written += other.documents_written
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.commits += other.commits
        self.round_trips += other.round_trips

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count the request of the `with` block towards the round trips."""
        depth = self._answered + 1
        self.round_trips = max(self.round_trips, depth)
        try:
            yield
        finally:
            self._answered = max(self._answered, depth)

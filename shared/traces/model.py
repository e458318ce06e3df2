"""A trace and its texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, StringConstraints

from shared.core.text_validation import validate_line, validate_prose
from shared.index.facets import Facet, Kind, named_facet
from shared.traces.trust import Ballot, Status, Tally, VoteType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def _on_one_line(text: str) -> str:
    return validate_line(" ".join(text.split()))


Title = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_on_one_line)
]
"""What it solves, in a line."""


Text = Annotated[
    str, StringConstraints(min_length=1, max_length=50_000), AfterValidator(validate_prose)
]
"""The problem, or the solution."""


BEGINNING: Final = 400
"""Characters of the problem that stand before the solution where a trace is embedded; measured by
`benchmarks.trace_duplicates`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What the contributor writes, and may amend.

    Attributes:
        title: What it is about, in a line.
        context_text: The problem, and where it was met.
        solution_text: What worked.
        tags: Lower case, each once, in order.
    """

    title: str
    context_text: str
    solution_text: str
    tags: tuple[str, ...] = ()

    @property
    def embedding_text(self) -> str:
        """What is embedded of it: a model that reads only the beginning reads of both."""
        beginning, rest = self.context_text[:BEGINNING], self.context_text[BEGINNING:]
        return f"{self.title} {beginning} {self.solution_text} {rest}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """What it can be filtered by."""
        return {named_facet(Kind.TAG, tag): tag for tag in self.tags}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace as it is stored.

    Attributes:
        trace_id: Its name.
        writing: What it says.
        contributor: The user who contributed it. Nobody else is told.
        revision: How often it was written, from 1.
        text_revision: In which revision a text of it last changed.
        tally: The votes that count.
        created_at: When it was contributed.
        updated_at: When it was last amended.
        supersedes: The trace that it says it replaces.
        superseded_by: The trace by which its own contributor replaced it.
        withdrawn_at: When its contributor took it back.
    """

    trace_id: str
    writing: Writing
    contributor: str
    created_at: datetime
    updated_at: datetime
    revision: int = 1
    text_revision: int = 1
    tally: Tally = field(default_factory=Tally)
    supersedes: str | None = None
    superseded_by: str | None = None
    withdrawn_at: datetime | None = None

    @property
    def id(self) -> str:
        """Its name among all that can be searched."""
        return self.trace_id

    @property
    def indexed_text(self) -> str:
        """What is indexed by its words: its tags too."""
        return f"{self.writing.embedding_text} {' '.join(self.writing.tags)}"

    @property
    def dated_at(self) -> datetime:
        """The date by which traces are listed."""
        return self.updated_at

    @property
    def facets(self) -> Mapping[Facet, str]:
        """What it can be filtered by."""
        return self.writing.facets

    def counts(self, ballot: Ballot, revision: int) -> bool:
        """Whether a vote counts that was given on the texts of this revision.

        A vote for a trace is for what it said then. One against it stays until its voter is
        convinced: else changing a dot would clear a warning.
        """
        return ballot.vote is VoteType.DOWN or revision == self.text_revision

    @property
    def is_listed(self) -> bool:
        """Whether search may find it: it was neither withdrawn nor replaced."""
        return self.withdrawn_at is None and self.superseded_by is None

    @property
    def status(self) -> Status:
        """What it is taken for."""
        return Status.WITHDRAWN if self.withdrawn_at else self.tally.status

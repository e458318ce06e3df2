"""A trace: a solved coding problem that users share and vote on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, StringConstraints

from shared.core.text_validation import validate_line, validate_prose
from shared.index.facets import Facet, Kind, named_facet
from shared.traces.trust import TraceStatus, Vote, VoteTally, VoteType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def _join_lines(text: str) -> str:
    return validate_line(" ".join(text.split()))


TraceTitle = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_join_lines)
]
"""A title, with runs of white space replaced by one blank."""
TraceText = Annotated[
    str, StringConstraints(min_length=1, max_length=50_000), AfterValidator(validate_prose)
]
"""The text of a problem or of a solution."""

PROBLEM_LEAD: Final = 400
"""Characters of the problem that precede the solution in the text that is embedded; measured by
`benchmarks.trace_duplicates`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContent:
    """What the contributor wrote and may amend.

    Attributes:
        title: The problem in one line.
        context_text: The problem, and where it occurred.
        solution_text: What worked.
        tags: Normalized tags in the contributor's order, without duplicates.
    """

    title: str
    context_text: str
    solution_text: str
    tags: tuple[str, ...] = ()

    @property
    def embedding_text(self) -> str:
        """The text that is embedded.

        The solution follows the first `PROBLEM_LEAD` characters of the problem, so that a model
        that truncates its input sees both.
        """
        lead, rest = self.context_text[:PROBLEM_LEAD], self.context_text[PROBLEM_LEAD:]
        return f"{self.title} {lead} {self.solution_text} {rest}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The facets by which search filters, with their names."""
        return {named_facet(Kind.TAG, tag): tag for tag in self.tags}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace as it is stored.

    Attributes:
        trace_id: The id of its document.
        content: What it says.
        contributor: The id of the user who contributed it; never shown to others.
        revision: The number of its current revision, from 1.
        text_revision: The revision that last changed its title, problem or solution.
        tally: The votes that count.
        created_at: When it was contributed.
        updated_at: When it was last amended.
        supersedes: The id of the trace that its contributor says it replaces.
        superseded_by: The id of the trace that replaced it, by the same contributor.
        withdrawn_at: When its contributor withdrew it.
    """

    trace_id: str
    content: TraceContent
    contributor: str
    created_at: datetime
    updated_at: datetime
    revision: int = 1
    text_revision: int = 1
    tally: VoteTally = field(default_factory=VoteTally)
    supersedes: str | None = None
    superseded_by: str | None = None
    withdrawn_at: datetime | None = None

    @property
    def id(self) -> str:
        """The id in the index."""
        return self.trace_id

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed: the embedded text and the tags."""
        return f"{self.content.embedding_text} {' '.join(self.content.tags)}"

    @property
    def dated_at(self) -> datetime:
        """The date by which traces are listed."""
        return self.updated_at

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The facets by which search filters, with their names."""
        return self.content.facets

    def counts(self, vote: Vote, revision: int) -> bool:
        """Return whether a vote counts that was given on this revision.

        A vote for a trace counts for the texts it was given on. A vote against it counts until its
        voter changes it: otherwise a trivial edit would clear a warning.
        """
        return vote.type is VoteType.DOWN or revision == self.text_revision

    @property
    def is_listed(self) -> bool:
        """Whether search may find it: it is neither withdrawn nor superseded."""
        return self.withdrawn_at is None and self.superseded_by is None

    @property
    def status(self) -> TraceStatus:
        """Withdrawn, or the status that follows from the votes."""
        return TraceStatus.WITHDRAWN if self.withdrawn_at else self.tally.status

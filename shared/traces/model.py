"""A trace: a solved coding problem that users share and vote on.

The contributor of a trace can amend it, which creates a new revision, withdraw it, or replace it by
a new trace, which then supersedes it. A trace is indexed by its terms, by its vector and by its
facets, which are the values that searches filter by: its tags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, StringConstraints

from shared.core.text_validation import validate_line, validate_prose
from shared.index.facets import Facet, Kind, make_named_facet
from shared.text.folding import hash_texts
from shared.traces.trust import TraceStatus, Vote, VoteTally, VoteType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def _join_lines(text: str) -> str:
    return validate_line(" ".join(text.split()))


TraceTitle = Annotated[
    str, StringConstraints(min_length=1, max_length=200), AfterValidator(_join_lines)
]
"""A title on one line. Each run of white space becomes one space."""
MAX_TEXT_CHARACTERS: Final = 50_000
"""The maximum length of a problem or of a solution, in characters."""
TraceText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TEXT_CHARACTERS),
    AfterValidator(validate_prose),
]
"""The description of a problem or of a solution."""

PROBLEM_LEAD_CHARACTERS: Final = 400
"""In the embedded text, this many characters of the problem precede the solution. The number is the
one that worked best on rewritten traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContent:
    """The part of a trace that its contributor writes and can amend.

    Attributes:
        title: The problem in one line.
        context_text: The problem, and where it occurred.
        tags: The normalized and distinct tags, in the contributor's order.
    """

    title: str
    context_text: str
    solution_text: str
    tags: tuple[str, ...] = ()

    @property
    def claim_id(self) -> str:
        """The id of the claim to these texts."""
        return hash_texts("trace", self.title, self.context_text, self.solution_text)

    @property
    def embedding_text(self) -> str:
        """The text from which the vector of the trace is computed.

        The solution follows the first characters of the problem, because a model that truncates its
        input then still reads part of both.
        """
        lead = self.context_text[:PROBLEM_LEAD_CHARACTERS]
        remainder = self.context_text[PROBLEM_LEAD_CHARACTERS:]
        return f"{self.title} {lead} {self.solution_text} {remainder}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The tags, by facet."""
        return {make_named_facet(Kind.TAG, tag): tag for tag in self.tags}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A solved coding problem.

    Attributes:
        contributor: The id of the user who contributed the trace, which other users never see.
        updated_at: When the trace was contributed or last amended.
        revision: The number of the current revision, from 1.
        text_revision: The revision that last changed the title, the problem or the solution.
        tally: The sums of the votes that count (see `counts_vote`).
        supersedes: The id of the trace that this one replaces, according to its contributor, or
            None. The other trace may belong to another user, and then it is not superseded.
        superseded_by: The id of the trace by the same contributor that replaced this one, or None.
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
        """The id under which the trace is indexed."""
        return self.trace_id

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed: the embedded text and the tags."""
        return f"{self.content.embedding_text} {' '.join(self.content.tags)}"

    @property
    def title(self) -> str:
        """The problem in one line."""
        return self.content.title

    @property
    def author(self) -> None:
        """No author, because a trace is not found by one."""
        return None

    @property
    def dated_at(self) -> datetime:
        """The time by which traces are ordered in lists."""
        return self.updated_at

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The tags, by facet."""
        return self.content.facets

    def counts_vote(self, vote: Vote, revision: int) -> bool:
        """Return whether a vote on a revision counts.

        An upvote counts only while the texts are those that the voter read. A downvote counts until
        the voter changes it, because otherwise a trivial edit would clear a warning.
        """
        return vote.type is VoteType.DOWN or revision == self.text_revision

    @property
    def is_listed(self) -> bool:
        """Whether searches include the trace: it is neither withdrawn nor superseded."""
        return self.withdrawn_at is None and self.superseded_by is None

    @property
    def status(self) -> TraceStatus:
        """`WITHDRAWN`, or the status that follows from the votes."""
        return TraceStatus.WITHDRAWN if self.withdrawn_at else self.tally.status

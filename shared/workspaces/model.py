"""Documents that a caller uploaded to a workspace.

A workspace contains the texts that a user gave to `extract_key_info` under one name, the argument
`task_id`. Each text is a document, which is split into passages. These are stored in parts
(`shared.workspaces.parts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.ids import IdKind, make_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.index.facets import Facet


class DocumentStatus(StrEnum):
    """The state of a document's upload."""

    ARRIVING = "arriving"
    """A call is storing the parts, or died while doing so. Another upload starts again."""
    WAITING = "waiting"
    """All parts are stored, and some have no vectors yet."""
    READY = "ready"
    """The document can be searched."""
    FAILED = "failed"
    """The document could not be embedded. Another upload starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProfile:
    """How passages are indexed: the embedding model and the version of the analyzer.

    Documents with different profiles cannot be searched together, because their vectors or terms
    cannot be compared.
    """

    model: str
    dimension: int
    analysis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDocument:
    """One text that a caller uploaded to a workspace.

    Attributes:
        document_id: A hash of the text.
        upload_id: A random id. Each upload of a text has its own, and its own parts.
        user_id: The user to whom the workspace belongs.
        passages: The number of distinct passages.
        parts: The number of Firestore documents that store the passages.
        next_at: From when a call or a job may embed the document, if it waits. Whoever embeds it
            sets a later time, so that nobody else does meanwhile.
        unpaid: Whether a pending answer about the document was free, and no answer has quoted it.
        tries: How often a job has failed to embed the document since the last success.
        reason: Why the document failed, or None.
    """

    document_id: str
    upload_id: str
    user_id: str
    status: DocumentStatus
    profile: IndexProfile
    passage_characters: int
    passages: int
    parts: int
    uploaded_at: datetime
    next_at: datetime
    unpaid: bool = False
    tries: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspacePassage:
    """A passage of a document, where it first occurs there.

    Attributes:
        id: A hash of the cleaned text.
        position: The number of the passage in the document, from 1.
        start: The start of the passage in the document, in code points.
        text: The original text, `document[start:end]`.
        counts: How often each term occurs.
        length: The number of terms, repeats included, without variants.
    """

    id: str
    position: int
    start: int
    end: int
    text: str
    counts: Mapping[str, int]
    length: int

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed."""
        return self.text

    @property
    def title(self) -> str:
        """An empty text, because a passage has no title."""
        return ""

    @property
    def author(self) -> None:
        """No author, because a passage is not found by one."""
        return None

    @property
    def dated_at(self) -> None:
        """No date, because a search in a workspace has no dates."""

    @property
    def facets(self) -> Mapping[Facet, str]:
        """No facets, because a search in a workspace has no filters."""
        return {}


def content_id(text: str) -> str:
    """Return the id of a document with this text, or of a passage with this cleaned text."""
    return make_id(IdKind.DOCUMENT, text)

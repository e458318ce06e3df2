"""Documents that a caller uploaded to a workspace, and their contents in parts.

The contents of a document are where each of its passages is and which terms are in it. They are
stored in parts, each part in a Firestore document of its own, so that a search by words costs a few
reads for a document, not one for each passage.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.index.bm25 import Postings, Totals, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.index.facets import Facet

_ID_DIGITS: Final = 32
"""Ids are 32 hexadecimal digits, 128 bits: enough that two texts never share one by chance."""


class DocumentStatus(StrEnum):
    """How far the upload of a document has come."""

    ARRIVING = "arriving"
    """A call is storing the document, or died while it did. Uploading it again continues there."""
    WAITING = "waiting"
    """All of the text is stored, and a job computes the missing vectors."""
    READY = "ready"
    """The document can be searched."""
    FAILED = "failed"
    """A job could not embed the document. Uploading it again retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProfile:
    """What passages are indexed with. Documents of different profiles cannot be searched together.

    Attributes:
        model: The embedding model.
        dimension: The length of its vectors.
        analysis: The version of the terms, `shared.text.terms.ANALYSIS`.
    """

    model: str
    dimension: int
    analysis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDocument:
    """One text that a caller uploaded to a workspace.

    Attributes:
        document_id: A hash of the text.
        upload_id: Identifies this upload: a document erased and uploaded again has another one.
        status: How far the upload has come.
        profile: What its passages are indexed with.
        passage_characters: The maximum length of a passage.
        splitter: The version of the splitting, `shared.text.passages.CUTTING`.
        characters: The length of the text.
        passages: The number of different passages.
        parts: The number of Firestore documents that hold the contents.
        uploaded_at: When it was uploaded.
        prepaid: Identifies a call that was paid for and is not answered yet; None if there is none.
        reason: Why the upload failed.
        leased_until: Until when a call embeds the waiting passages: others leave them alone.
        next_at: When a job may continue with it; None before it waits.
        tries: How often a job failed at it since its last success.
    """

    document_id: str
    upload_id: str
    status: DocumentStatus
    profile: IndexProfile
    passage_characters: int
    splitter: int
    characters: int
    passages: int
    parts: int
    uploaded_at: datetime
    prepaid: str | None = None
    reason: str | None = None
    leased_until: datetime | None = None
    next_at: datetime | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class WorkspacePassage:
    """A passage, stored once for all documents of the workspace that contain it.

    Attributes:
        passage_id: A hash of its text.
        text: Cleaned: runs of white space are one space, and control characters are removed.
        dated_at: When the latest document that contains it was uploaded; None while unknown.
    """

    passage_id: str
    text: str
    dated_at: datetime | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.passage_id

    @property
    def indexed_text(self) -> str:
        """The text that is searched by words."""
        return self.text

    @property
    def facets(self) -> Mapping[Facet, str]:
        """Empty: a search names the documents to look in and has no filters."""
        return {}


def content_id(text: str) -> str:
    """Return the id of a document, from its text, or of a passage, from its cleaned text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_ID_DIGITS]


def upload_facet(document: WorkspaceDocument) -> str:
    """The entry in a passage's `facets` that says that this upload of a document contains it."""
    return f"document:{document.document_id}.{document.upload_id}"


PART_BYTES: Final = 900_000
"""The maximum size of a part before compression: incompressible text still fits into 1 MiB."""
_SPAN_BYTES: Final = 80
"""The most that a passage takes in a part, apart from its text and its terms."""
_POSTING_BYTES: Final = 20
"""The most that a term takes for each passage, apart from its letters."""


@dataclass(frozen=True, slots=True)
class ParsedPassage:
    """A passage where it first occurs in its document, with its terms.

    Attributes:
        passage_id: The id of the passage.
        position: Its number among the passages of the document, from 1.
        start: Where it starts in the document, in code points.
        end: Where it ends.
        text: The original text, `document[start:end]`.
        cleaned: The text that is stored and embedded.
        counts: How often each term occurs in it.
    """

    passage_id: str
    position: int
    start: int
    end: int
    text: str
    cleaned: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """Where a passage is in a document.

    Attributes:
        position: Its number among the passages of the document, from 1.
        start: Where it starts in the document, in code points.
        end: Where it ends.
        text: The original text; None where it equals the cleaned text.
    """

    position: int
    start: int
    end: int
    text: str | None


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """Some passages of a document, in the order of the text, each where it first occurs.

    Attributes:
        ids: The ids of the passages.
        spans: The position, start and end of each passage.
        lengths: The number of terms of each passage, repeats included.
        texts: Original texts by the index of the passage, where they differ from the cleaned text.
        terms: For each term, the index of each passage that contains it, followed by how often.
    """

    ids: list[str]
    spans: list[tuple[int, int, int]]
    lengths: list[int]
    texts: dict[int, str]
    terms: dict[str, list[int]]

    def to_bytes(self) -> bytes:
        """Return the stored form: compressed JSON."""
        fields = [self.ids, self.spans, self.lengths, list(self.texts.items()), self.terms]
        return zlib.compress(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> DocumentPart:
        """Read the stored form."""
        ids, spans, lengths, texts, terms = json.loads(zlib.decompress(data))
        return cls(
            ids,
            [(position, start, end) for position, start, end in spans],
            lengths,
            dict(texts),
            terms,
        )

    def passage_spans(self) -> Iterator[tuple[str, PassageSpan]]:
        """Return the id and the span of each passage."""
        for index, (passage_id, span) in enumerate(zip(self.ids, self.spans, strict=True)):
            yield passage_id, PassageSpan(*span, self.texts.get(index))


def build_parts(passages: Sequence[ParsedPassage]) -> list[DocumentPart]:
    """Put the passages of a document into parts, each small enough for a Firestore document."""
    parts: list[DocumentPart] = []
    size = PART_BYTES
    for passage in passages:
        passage_size = _size_in_part(passage)
        if size + passage_size > PART_BYTES:
            parts.append(DocumentPart([], [], [], {}, {}))
            size = 0
        size += passage_size
        _add(passage, parts[-1])
    return parts


def term_postings(
    parts: Iterable[DocumentPart], terms: Iterable[str]
) -> tuple[dict[str, Postings], Totals]:
    """Return the postings of each of these terms, and the totals of all passages.

    A passage that occurs in several documents counts once.
    """
    lengths: dict[str, int] = {}
    entries: dict[str, dict[str, int]] = {term: {} for term in terms}
    for part in parts:
        lengths.update(zip(part.ids, part.lengths, strict=True))
        for term, passages in entries.items():
            numbers = iter(part.terms.get(term, ()))
            for index, tf in zip(numbers, numbers, strict=True):
                passages[part.ids[index]] = pack(tf, part.lengths[index])
    postings = {
        term: Postings(len(passages), passages) for term, passages in entries.items() if passages
    }
    return postings, Totals(len(lengths), sum(lengths.values()))


def refusal_message(parts: Iterable[DocumentPart], passage_id: str) -> str:
    """Say which characters of a document the embedding model refuses."""
    spans = (span for part in parts for name, span in part.passage_spans() if name == passage_id)
    span = next(spans)
    return f"the embedding model refuses characters {span.start} to {span.end}"


def _add(passage: ParsedPassage, part: DocumentPart) -> None:
    index = len(part.ids)
    part.ids.append(passage.passage_id)
    part.spans.append((passage.position, passage.start, passage.end))
    part.lengths.append(sum(passage.counts.values()))
    if passage.text != passage.cleaned:
        part.texts[index] = passage.text
    for term, tf in passage.counts.items():
        part.terms.setdefault(term, []).extend((index, tf))


def _size_in_part(passage: ParsedPassage) -> int:
    """Return an upper bound of what a passage takes as JSON, in bytes."""
    text = 0
    if passage.text != passage.cleaned:
        text = len(json.dumps(passage.text, ensure_ascii=False).encode())
    terms = sum(len(term.encode()) + _POSTING_BYTES for term in passage.counts)
    return _SPAN_BYTES + text + terms

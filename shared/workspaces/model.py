"""Documents that a caller uploaded to a workspace, and the parts that store their contents.

A workspace contains the texts that a user gave to `extract_key_info` under one name, the argument
`task_id`. Each text is a document, which is split into passages. The contents of a document are the
positions and terms of its passages. They are stored in parts, which are separate Firestore
documents. So a search by words costs a few reads per document instead of one per passage.
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
"""An id has this many hexadecimal digits. No two texts have the same 128 bits by chance."""


class DocumentStatus(StrEnum):
    """The state of a document's upload."""

    ARRIVING = "arriving"
    """A call is storing the document, or died while doing so. Another upload continues the work."""
    WAITING = "waiting"
    """All of the text is stored, and a job computes the missing vectors."""
    READY = "ready"
    """The document can be searched."""
    FAILED = "failed"
    """A job could not embed the document. Another upload retries the embedding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProfile:
    """How passages are indexed: the embedding model and the version of the analyzer.

    Documents with different profiles cannot be searched together, because their vectors or terms
    cannot be compared.

    Attributes:
        analysis: The version of the analyzer, `shared.text.terms.ANALYZER_VERSION`.
    """

    model: str
    dimension: int
    analysis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDocument:
    """One text that a caller uploaded to a workspace.

    Attributes:
        document_id: A hash of the text.
        upload_id: The id of the upload. Uploading an erased document again creates a new id.
        passages: The number of distinct passages.
        parts: The number of Firestore documents that store the contents.
        prepaid: The random id of a payment for which the caller has not got an answer yet, so that
            the next answer about the document is free. None if there is no such payment.
        leased_until: Until when one call has the right to embed the waiting passages, or None if no
            call has it.
        next_at: From when a job may embed the document, or None if it has never waited.
        tries: How often a job has failed to embed the document since the last success.
    """

    document_id: str
    upload_id: str
    status: DocumentStatus
    profile: IndexProfile
    passage_characters: int
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
    """A passage, which is stored once for all documents of the workspace that contain it.

    Attributes:
        passage_id: A hash of the text.
        text: The cleaned text. Each run of white space is one space, and control characters are
            removed.
        dated_at: When a document with the passage was last uploaded, or None while unknown.
    """

    passage_id: str
    text: str
    dated_at: datetime | None = None

    @property
    def id(self) -> str:
        """The id under which the passage is indexed."""
        return self.passage_id

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed."""
        return self.text

    @property
    def facets(self) -> Mapping[Facet, str]:
        """No facets, because a search in a workspace has no filters."""
        return {}


def content_id(text: str) -> str:
    """Return the id of a document with this text, or of a passage with this cleaned text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_ID_DIGITS]


def upload_facet(document: WorkspaceDocument) -> str:
    """Return the facet (a value to filter by) of all passages of one upload of a document."""
    return f"document:{document.document_id}.{document.upload_id}"


PART_BYTES: Final = 900_000
"""A part is at most this large before compression, so that even incompressible text fits into a
Firestore document of 1 MiB. A single passage is far smaller."""
_MAX_SPAN_BYTES: Final = 80
"""A passage occupies at most this many bytes in a part in addition to its text and its terms: for
its id, span and length."""
_MAX_POSTING_BYTES: Final = 20
"""A term occupies at most this many bytes for each passage in addition to its letters: for the
passage's index, the frequency and punctuation."""


@dataclass(frozen=True, slots=True)
class ParsedPassage:
    """A passage of a document, before it is stored, with its terms.

    A passage that occurs several times is parsed where it first occurs.

    Attributes:
        position: The number of the passage in the document, from 1.
        start: The start of the passage in the document, in code points.
        text: The original text, `document[start:end]`.
        cleaned: The text that is stored and embedded.
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
    """The location of a passage in a document.

    Attributes:
        position: The number of the passage in the document, from 1.
        start: The start of the passage in the document, in code points.
        text: The original text, or None if it equals the cleaned text.
    """

    position: int
    start: int
    end: int
    text: str | None


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """Some passages of a document, in the order in which they first occur.

    Attributes:
        spans: The position, start and end of each passage.
        lengths: The number of terms of each passage, including repetitions.
        texts: The original texts that differ from the cleaned ones, by the passage's index.
        terms: A flat list for each term: the index of a passage that contains the term, how often
            the term occurs there, the index of the next passage, and so on.
    """

    ids: list[str]
    spans: list[tuple[int, int, int]]
    lengths: list[int]
    texts: dict[int, str]
    terms: dict[str, list[int]]

    def to_bytes(self) -> bytes:
        """Return the stored form: compressed JSON."""
        # JSON has only string keys, so the texts are stored as a list of pairs.
        fields = [self.ids, self.spans, self.lengths, list(self.texts.items()), self.terms]
        return zlib.compress(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> DocumentPart:
        """Parse the stored form."""
        ids, spans, lengths, texts, terms = json.loads(zlib.decompress(data))
        return cls(
            ids,
            [(position, start, end) for position, start, end in spans],
            lengths,
            dict(texts),
            terms,
        )

    def iterate_spans(self) -> Iterator[tuple[str, PassageSpan]]:
        """Yield the id and the span of each passage."""
        for index, (passage_id, span) in enumerate(zip(self.ids, self.spans, strict=True)):
            yield passage_id, PassageSpan(*span, self.texts.get(index))


def build_parts(passages: Sequence[ParsedPassage]) -> list[DocumentPart]:
    """Divide the passages of a document into parts that fit into Firestore documents."""
    parts: list[DocumentPart] = []
    size = PART_BYTES  # so that the first passage begins a part
    for passage in passages:
        passage_size = _bound_size_in_part(passage)
        if size + passage_size > PART_BYTES:
            parts.append(DocumentPart([], [], [], {}, {}))
            size = 0
        size += passage_size
        _add_passage(passage, parts[-1])
    return parts


def collect_postings(
    parts: Iterable[DocumentPart], terms: Iterable[str]
) -> tuple[dict[str, Postings], Totals]:
    """Collect from parts what a search by words needs.

    A passage that occurs in several documents is counted only once.

    Returns:
        The postings (the passages that contain a term) of each term that occurs, and the number and
        total length of all passages.
    """
    lengths: dict[str, int] = {}
    passages_by_term: dict[str, dict[str, int]] = {term: {} for term in terms}
    for part in parts:
        lengths.update(zip(part.ids, part.lengths, strict=True))
        for term, passages in passages_by_term.items():
            numbers = iter(part.terms.get(term, ()))
            # The iterator is zipped with itself to read pairs: a passage's index and a frequency.
            for index, tf in zip(numbers, numbers, strict=True):
                passages[part.ids[index]] = pack(tf, part.lengths[index])
    postings = {
        term: Postings(len(passages), passages)
        for term, passages in passages_by_term.items()
        if passages
    }
    return postings, Totals(len(lengths), sum(lengths.values()))


def describe_rejection(parts: Iterable[DocumentPart], passage_id: str) -> str:
    """Return the reason of a failed upload: which characters the embedding model rejected.

    Args:
        passage_id: The id of the rejected passage, which one of the parts contains.
    """
    span = next(
        span
        for part in parts
        for candidate_id, span in part.iterate_spans()
        if candidate_id == passage_id
    )
    return f"the embedding model rejected characters {span.start} to {span.end}"


def _add_passage(passage: ParsedPassage, part: DocumentPart) -> None:
    index = len(part.ids)
    part.ids.append(passage.passage_id)
    part.spans.append((passage.position, passage.start, passage.end))
    part.lengths.append(sum(passage.counts.values()))
    if passage.text != passage.cleaned:
        part.texts[index] = passage.text
    for term, tf in passage.counts.items():
        part.terms.setdefault(term, []).extend((index, tf))


def _bound_size_in_part(passage: ParsedPassage) -> int:
    """Return how many bytes a passage occupies in a part's JSON at most."""
    text_bytes = 0
    if passage.text != passage.cleaned:
        text_bytes = len(json.dumps(passage.text, ensure_ascii=False).encode())
    term_bytes = sum(len(term.encode()) + _MAX_POSTING_BYTES for term in passage.counts)
    return _MAX_SPAN_BYTES + text_bytes + term_bytes

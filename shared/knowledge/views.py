"""The result models with which tools show chunks, sources and clusters."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import Field

from shared.knowledge.chunk import PassageKind
from shared.runtime.schemas import FOR_APPS, Result
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from shared.knowledge.chunk import Chunk


class Addresses(Result):
    """Where a passage can be read outside Carrel."""

    readwise_url: str | None = Field(description="The highlight, or its source, in Readwise.")
    source_url: str | None = Field(description="The original on the web.")
    highlight_url: str | None = Field(description="The highlight's place in the original.")
    page: int | None = Field(description="The page where it, or its match, begins.")
    chapter: str | None = Field(description="The chapter in which it begins.")
    location: str | None = Field(description="Its Kindle location, or another position.")


class Copy(Result):
    """Another passage that says the same."""

    chunk_id: str = Field(description="Its id.")
    title: str = Field(description="Title of its source.")


class NoteSummary(Result):
    """A note in brief."""

    source_id: str = Field(description="Its id, for get_source and to change it.")
    text: str = Field(description="How it begins, after its title if that says something else.")
    date: str | None = Field(description="Day it was saved, in TIME_ZONE.")
    corrects: bool | None = Field(description="true if it corrects what it is about.")
    about_id: str | None = Field(description="The passage or source that it is about.")
    about_gone: bool | None = Field(
        description="true if the passage that it was about has changed or is gone."
    )
    saved_with: str | None = Field(description="The client that last saved it, if known.")


class Subject(Result):
    """What a note is about."""

    id: str = Field(description="The passage, for get_chunk, or the source, for get_source.")
    title: str | None = Field(description="Title of the source; missing if gone or kept out.")
    text: str | None = Field(description="How the passage begins; missing if it stands beside it.")
    corrected: bool | None = Field(description="true if the note corrects it.")


DATE: Final = "Its day in TIME_ZONE, if any, and what happened on it: written 2026-01-31."
"""The description of a passage's date."""


class Passage(Result):
    """A chunk in brief."""

    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    kind: PassageKind | None = Field(description="What it is, unless its date says so.")
    source: str = Field(
        description="Where its source came from, such as kindle, reader or file.",
        json_schema_extra=FOR_APPS,
    )
    folder: str | None = Field(description="Its folder, if it is a file of a followed one.")
    date: str | None = Field(description=DATE)
    chapter: str | None = Field(description="The chapter in which it begins.")
    page: int | None = Field(description="The page where it, or its match, begins.")
    location: str | None = Field(description="Its Kindle location, or another position.")
    snippet: str | None = Field(description="An excerpt; get_chunk returns the whole text.")
    address: str | None = Field(description="Where it, or its source, can be read outside Carrel.")
    tags: list[str] = Field(description="Tags of source and highlight.")
    chunk_id: str = Field(description="Its id, for get_chunk, and for get_source.")
    source_id: str = Field(description="Id of its source.", json_schema_extra=FOR_APPS)
    chunk_info: str = Field(
        description="Its place in the source: 2/5, second of five.", json_schema_extra=FOR_APPS
    )
    also_in: list[Copy] | None = Field(description="Passages that say the same.")


class AnnotatedPassage(Passage):
    """A chunk in brief, with the notes about it, and of a note, what it is about."""

    about: Subject | None = Field(description="Of a note, what it is about.")
    notes: list[NoteSummary] | None = Field(
        description="Notes about it or its source, corrections first."
    )
    further_notes: int | None = Field(
        description="At least how many more there are, for get_chunk; missing if none."
    )


PassageT = TypeVar("PassageT", bound=Passage)


def to_passage(kind: type[PassageT], chunk: Chunk, zone: tzinfo, **fields: Any) -> PassageT:
    """Convert a chunk to a passage of a kind.

    Args:
        kind: The class of the result.
        fields: Other fields of the result. The default `snippet` is the beginning of the chunk.
    """
    date = chunk.format_date(zone)
    says_kind = date is not None and date.startswith(chunk.kind)  # highlighted 2026-01-31
    defaults = {
        "snippet": make_snippet(chunk.content),
        "source": chunk.origin,
        "kind": None if says_kind else chunk.kind,
        "date": date,
        "also_in": None,
    }
    return kind.of(chunk, **(defaults | fields))


def to_copies(chunks: Iterable[Chunk]) -> list[Copy] | None:
    """Convert chunks that say the same as another. None if there are none."""
    return [Copy.of(chunk) for chunk in chunks] or None


def format_copies(copies: Iterable[Copy] | None) -> str | None:
    """Format where else a passage stands: `Also in Walden (ID: fk3v...); Essays (ID: fab2...)`."""
    names = "; ".join(f"{copy.title} (ID: {copy.chunk_id})" for copy in copies or ())
    return f"Also in {names}" if names else None


_INDENT: Final = "   "


def format_passage(
    passage: Passage, texts: Iterable[str | None], score: float | None = None
) -> str:
    """Format a passage as text, with all that models get of it.

    The texts are indented, so that none of them can look like another passage.
    """
    details = format_details(passage, score)
    tags = f", tags: {', '.join(passage.tags)}" if passage.tags else ""
    identity = f"ID: {passage.chunk_id}{tags}"
    annotations = _format_annotations(passage) if isinstance(passage, AnnotatedPassage) else []
    also_in = format_copies(passage.also_in)
    lines = "\n".join(filter(None, [*texts, passage.address, identity, also_in, *annotations]))
    return f"{format_title(passage.title, passage.author)} ({details})\n{indent(lines, _INDENT)}"


def format_details(passage: Passage, score: float | None = None) -> str:
    """Format the kind, place, date and score of a passage, without its address."""
    place = format_place(passage.page, passage.location)
    match = "" if score is None else f"score {score:.2f}"
    facts = [passage.kind, passage.folder, passage.date, passage.chapter, place, match]
    return ", ".join(filter(None, facts))


def _format_annotations(passage: AnnotatedPassage) -> list[str]:
    about = [_format_subject(passage.about)] if passage.about else []
    further = passage.further_notes
    more = [f"At least {further} more notes: get_chunk shows them."] if further else []
    return [*about, *map(format_note, passage.notes or ()), *more]


def _format_subject(subject: Subject) -> str:
    heading = " ".join(filter(None, [subject.title, f"(ID: {subject.id})"]))
    text = f": {subject.text}" if subject.text else ""
    return f"{'It corrects' if subject.corrected else 'It is about'} {heading}{text}"


def format_note(note: NoteSummary) -> str:
    """Format a note as a line."""
    kind = "Correction" if note.corrects else "Note"
    gone = ", about a passage that has changed or is gone" if note.about_gone else ""
    client = f", saved with {note.saved_with}" if note.saved_with else ""
    return f"{kind} ({note.date}, ID: {note.source_id}{gone}{client}): {note.text}"


def format_place(page: object, location: object) -> str:
    """Format a page or a location. A PDF's label of a page, such as `page xii`, is its location."""
    if page and str(location or "").startswith("page "):
        return f"{location} ({page} of the file)"
    return f"page {page}" if page else f"location {location}" if location else ""


def format_title(title: str, author: str | None) -> str:
    """Format a title with its author, if the author is known."""
    return f"{title} by {author}" if author else title


class SourceSummary(Result):
    """A source in brief."""

    source_id: str = Field(description="Its id, for get_source.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Who wrote it, if known.")
    source: str = Field(description="Where it came from, such as kindle, reader or file.")
    category: str = Field(description="What it is, such as books, articles or documents.")
    language: str | None = Field(description="Its language, if it names one, such as en.")
    tags: list[str] = Field(description="Tags of the whole source.")
    chunk_count: int = Field(description="How many passages it has.")
    updated: str = Field(description="Day it last changed here, in TIME_ZONE.")
    source_url: str | None = Field(description="The original on the web.")
    readwise_url: str | None = Field(description="Its page in Readwise.")


class LinkedSource(Result):
    """A source that another source links to, or that links to it."""

    source_id: str = Field(description="Its id, for get_source.")
    title: str = Field(description="Its title.")


MAX_LINKS: Final = 30
"""The maximum number of links from a source, and of links to it, that a tool shows."""


class ClusterSummary(Result):
    """A cluster in brief."""

    cluster_id: str = Field(description="Its id, for get_cluster.")
    name: str = Field(description="Its name, a few words.")
    description: str | None = Field(description="What it is about.")
    keywords: list[str] = Field(
        description="Typical words of its passages, best first.", json_schema_extra=FOR_APPS
    )
    size: int = Field(description="How many passages it had when clusters were last counted.")
    kinds: dict[str, int] | None = Field(description="How many of them are in each category.")

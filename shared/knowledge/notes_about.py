"""Loads the notes about passages, and what the notes among them are about."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.documents import Reference
from shared.index.on_request import is_kept_out
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.views import NoteSummary, Subject
from shared.text.markup import to_plain_line
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

    from shared.firestore.database import Database
    from shared.firestore.documents import Document
    from shared.knowledge.chunk import Chunk

MAX_NOTES: Final = 10
"""At most this many notes are shown, corrections first, then the newest."""
_MAX_NOTES_OF_PASSAGE: Final = 3
"""At most this many notes stand under a passage of a list."""


def to_note_summaries(notes: Iterable[Chunk], zone: tzinfo) -> list[NoteSummary]:
    """Convert the first chunks of notes to results, corrections first."""
    in_order = sorted(notes, key=lambda note: not note.corrects)
    return [_to_note_summary(note, zone) for note in in_order if not note.is_kept_out]


async def load_annotations(
    passages: Sequence[Chunk],
    zone: tzinfo,
    database: Database,
    copies: Mapping[str, Sequence[Chunk]],
) -> dict[str, dict[str, Any]]:
    """Load the notes and subjects of passages, as the fields of `AnnotatedPassage`, by chunk id.

    A note about a source stands under the first passage of that source, and one about a copy under
    the passage that stands for it. A note that is one of the
    passages stands under none, unless it is a correction. Costs one round trip, with
    `MAX_NOTES` notes for each 15 passages, and a document for each passage of a note.
    """
    titles = {chunk.chunk_id: chunk.title for chunk in passages}
    targets = {
        chunk.id: [*list_note_targets(chunk), *(copy.id for copy in copies.get(chunk.id, ()))]
        for chunk in passages
    }
    subjects_elsewhere = {
        Reference(SOURCES if chunk.about_id == chunk.about_source_id else CHUNKS, chunk.about_id)
        for chunk in passages
        if chunk.about_id and chunk.about_id not in titles
    }
    notes, subjects = await asyncio.gather(
        Chunks(database).load_notes_about(
            "about_id", list(dict.fromkeys(chain(*targets.values()))), MAX_NOTES
        ),
        _load_subjects(sorted(subjects_elsewhere), database),
    )
    by_target: dict[str, list[Chunk]] = {}
    for note in notes:
        by_target.setdefault(str(note.about_id), []).append(note)
    annotations = {}
    for chunk in passages:
        # A note about a source is popped with the source's first passage.
        own = [
            note
            for target in targets[chunk.id]
            for note in by_target.pop(target, ())
            if note.corrects or note.chunk_id not in titles
        ]
        summaries = [
            note.model_copy(update={"about_id": None}) for note in to_note_summaries(own, zone)
        ]
        annotations[chunk.chunk_id] = {
            "about": _to_subject(chunk, subjects.get(chunk.about_id), titles)
            if chunk.about_id
            else None,
            "notes": summaries[:_MAX_NOTES_OF_PASSAGE] or None,
            "further_notes": len(summaries[_MAX_NOTES_OF_PASSAGE:]) or None,
        }
    return annotations


def list_note_targets(chunk: Chunk) -> list[str]:
    """Return the ids of what a note that stands under a chunk is about: the chunk or its source."""
    return [chunk.chunk_id, chunk.source_id]


async def load_subject_title(about_id: str | None, database: Database) -> str | None:
    """Load the title of the source or of the passage with this id, or None if there is none.

    Costs one round trip, or none without an id.
    """
    references = [Reference(collection, about_id) for collection in (CHUNKS, SOURCES) if about_id]
    subjects = await _load_subjects(references, database)
    return subjects[about_id].get("title") if about_id in subjects else None


async def _load_subjects(
    references: Sequence[Reference], database: Database
) -> dict[str | None, Document]:
    """Load passages and sources, without the deleted ones, by id."""
    documents = await database.get_all(references, ["title", "content", "tags"])
    return {document.id: document for document in documents if "title" in document.fields}


def _to_subject(note: Chunk, subject: Document | None, titles: Mapping[str, str]) -> Subject:
    """Convert what a note is about, which is one of the passages with these titles or loaded.

    Of what is kept out, only the id is shown.
    """
    fields = subject.fields if subject and not is_kept_out(subject.get("tags") or ()) else {}
    about_id = str(note.about_id)
    return Subject(
        id=about_id,
        title=fields.get("title") or titles.get(about_id),
        text=make_snippet(fields["content"]) if "content" in fields else None,
        corrected=note.corrects,
    )


def _to_note_summary(note: Chunk, zone: tzinfo) -> NoteSummary:
    text = make_snippet(note.content)
    if not text.startswith(to_plain_line(note.title).rstrip("….")):
        text = f"{note.title}: {text}"
    return NoteSummary.of(note, text=text, date=note.format_day(zone))

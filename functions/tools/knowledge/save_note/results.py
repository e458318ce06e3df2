"""The results of `save_note`, and their messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from shared.runtime.schemas import FOR_APPS, Change, Result, Undo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.writer.chunked_source import ChunkedSource
    from shared.writer.note_duplicates import NearNote
    from shared.writer.note_repository import StoredNote


class SimilarNote(Result):
    """A note that says nearly the same."""

    source_id: str = Field(description="Its id, for get_source and to change it.")
    title: str = Field(description="Its title.")
    similarity: float = Field(description="How near the texts are in meaning, from 0 to 1.")


class Out(Result):
    """The note that is stored now."""

    source_id: str = Field(description="Its id, for get_source and to change it.")
    revision: int = Field(description="The number of its revision, to change it; 1 when new.")
    title: str = Field(description="Its title.")
    chunk_ids: list[str] = Field(
        description="Its passages, for get_chunk.", json_schema_extra=FOR_APPS
    )
    tags: list[str] = Field(description="Its tags.")
    duplicate: bool = Field(
        description="Whether this note already had the same text: then nothing was stored."
    )
    text: str | None = Field(description="The text of the note that already says the same.")
    similar: list[SimilarNote] = Field(
        description="Other notes that say nearly the same, or contradict it."
    )
    changed: list[str] = Field(description="The fields that changed.")
    waiting: int = Field(
        description="How many of its passages can be found by their words only, until they are"
        " embedded."
    )
    readable_by: str = Field(description="Who can read it.")
    about_title: str | None = Field(
        description="The title of the passage or source under whose hits it stands, if any."
    )
    corrects: bool | None = Field(description="true if it corrects that.")
    undo: Undo | None = Field(description="How to undo it; missing if nothing was stored.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "edited" if self.changed else "corrected" if self.corrects else "saved"
        return Change.list_undoable(action, self.source_id, self.title, self.undo)


def build_duplicate_result(stored: StoredNote, ctx: Context) -> Out:
    """Build the result of a call that stored nothing, because this note says the same."""
    note = stored.note
    return Out(
        source_id=note.source_id,
        revision=note.revision,
        title=note.title,
        chunk_ids=list(stored.chunks),
        tags=list(note.tags),
        duplicate=True,
        text=note.text,
        similar=[],
        changed=[],
        waiting=0,
        readable_by=_describe_readers(ctx),
        about_title=None,
        corrects=note.corrects,
        undo=None,
    )


def build_note_result(  # noqa: PLR0913 - a field of the result each
    note: ChunkedSource,
    revision: int,
    ctx: Context,
    *,
    similar: Sequence[NearNote] = (),
    changed: Sequence[str] = (),
    waiting: int = 0,
    about_title: str | None = None,
) -> Out:
    """Build the result for a note that is stored now."""
    return Out(
        source_id=note.source.source_id,
        revision=revision,
        title=note.source.title,
        chunk_ids=[chunk.chunk_id for chunk in note.chunks],
        tags=list(note.source.tags),
        duplicate=False,
        text=None,
        similar=[SimilarNote(**asdict(note)) for note in similar],
        changed=list(changed),
        waiting=waiting,
        readable_by=_describe_readers(ctx),
        about_title=about_title,
        corrects=note.source.corrects,
        undo=_build_undo(note.source.source_id, revision),
    )


def _build_undo(source_id: str, revision: int) -> Undo:
    """Build the call that undoes the change to this revision, or that forgets a new note."""
    target = {"source_id": source_id}
    if revision == 1:
        return Undo(tool="forget", arguments=target)
    arguments = {**target, "revision": revision, "restore_revision": revision - 1}
    return Undo(tool="save_note", arguments=arguments)


def _describe_readers(ctx: Context) -> str:
    if ctx.settings.public_access:
        return "everyone on the internet, without signing in"
    return "everyone who may use this knowledge base"


def make_message(out: Out) -> str | None:
    """Say why nothing was stored, or what is not as it should be."""
    if out.duplicate:
        return (
            "Nothing was stored: this note says that already. To change it, call save_note with its"
            ' source_id and revision. To store a new note all the same, send it with "again": true.'
        )
    sentences = []
    if out.about_title:
        kind = "As a correction, it" if out.corrects else "It"
        sentences.append(f"{kind} stands under each hit of {out.about_title}.")
    if out.waiting:
        sentences.append(
            "Search by meaning does not work right now: until it does, the note is found by its"
            " words only."
        )
    if out.similar:
        sentences.append("The notes in similar say nearly the same, or the opposite.")
    return " ".join(sentences) or None

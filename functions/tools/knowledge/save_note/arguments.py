"""The arguments of `save_note`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.core.text_validation import make_validation_error, validate_prose
from shared.knowledge.schemas import Tag, Title, drop_duplicate_tags
from shared.knowledge.source_repository import FORMER_REVISIONS
from shared.runtime.schemas import DocumentId, IdempotentArguments, SourceId
from shared.writer.note import NoteContent, default_title

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT_LENGTH: Final = 8_000
"""The maximum length of a note, in characters."""
MAX_TAGS: Final = 20
_CONTENT: Final = ("text", "title", "tags", "url", "about", "corrects")
"""The arguments that set the content of a note."""


def _validate_text(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise make_validation_error(
            f"must have at most {MAX_TEXT_LENGTH:,} characters. A longer text is added as a file,"
            f" in a shell: {carrel('ingest PATH')}"
        )
    return validate_prose(text).strip()


NoteText = Annotated[
    str,
    AfterValidator(_validate_text),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_TEXT_LENGTH}),
]
Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$", max_length=2_000)]


class In(IdempotentArguments):
    """A new note, or a change of one."""

    text: NoteText | None = Field(
        default=None,
        description="What to remember, understandable on its own.",
    )
    title: Title | None = Field(default=None, description="By default, the first words.")
    tags: list[Tag] | None = Field(
        default=None, max_length=MAX_TAGS, description=f"At most {MAX_TAGS}; [] removes all."
    )
    url: Url | None = Field(default=None, description="The web page it is about or from.")
    about: DocumentId | None = Field(default=None, description="The passage or source it is about.")
    corrects: bool | None = Field(default=None, description="Corrects that.")
    source_id: SourceId | None = Field(
        default=None,
        description="The note to change; omitted fields stay.",
    )
    revision: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="With source_id: from get_source.",
    )
    restore_revision: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description=(f"One of the last {FORMER_REVISIONS.period} to bring back."),
    )
    again: bool = Field(default=False, description="Even if one says the same.")

    @model_validator(mode="before")
    @classmethod
    def _give_a_new_note_its_default_title(cls, arguments: Any) -> Any:
        """Leave out the empty title of a new note. In a change, it might mean something else."""
        match arguments:
            case {"source_id": str()}:
                return arguments
            case {"title": "", **others}:
                return others
        return arguments

    @property
    def changes(self) -> Mapping[str, Any]:
        """The new values of the note's fields, without fields that are left out."""
        values: dict[str, Any] = {
            "title": self.title,
            "text": self.text,
            "source_url": self.url,
            "about_id": self.about,
            "about_gone": None if self.about is None else False,
            "corrects": self.corrects,
            "tags": None if self.tags is None else drop_duplicate_tags(self.tags),
        }
        return {name: value for name, value in values.items() if value is not None}

    def require_consistent(self) -> None:
        """Check that the arguments go together.

        Raises:
            InvalidInput: An argument is missing, or two exclude each other.
        """
        changed = [name for name in _CONTENT if getattr(self, name) is not None]
        if self.source_id is None:
            if self.text is None:
                raise _make_invalid_error("text", "required for a new note")
            require_subject(self.build_content())
            for name in ("revision", "restore_revision"):
                if getattr(self, name) is not None:
                    raise _make_invalid_error(name, "only with source_id, to change a note")
        elif self.revision is None:
            raise _make_invalid_error("revision", "required with source_id: get_source returns it")
        elif self.restore_revision is None and not changed:
            raise _make_invalid_error("source_id", "given without anything to change")
        elif self.restore_revision is not None and changed:
            raise _make_invalid_error(
                "restore_revision", f"given with {', '.join(changed)}: give either"
            )

    def build_content(self) -> NoteContent:
        """Return the content of a new note."""
        return NoteContent(**{"title": default_title(self.text or ""), **self.changes})

    def change_content(self, former: NoteContent) -> NoteContent:
        """Return the content of a note after the change.

        If the title was derived from the former text, it is derived from the new text.
        """
        changes = dict(self.changes)
        if self.text and former.title == default_title(former.text):
            changes.setdefault("title", default_title(self.text))
        return replace(former, **changes)


def require_subject(content: NoteContent) -> None:
    """Check that a note that corrects something says what.

    Raises:
        InvalidInput: It does not.
    """
    if content.corrects and not content.about_id:
        raise _make_invalid_error(
            "about", "required with corrects: the passage or source that it corrects"
        )


def _make_invalid_error(field: str, problem: str) -> InvalidInput:
    return InvalidInput(f"save_note was not run: {field} is {problem}.", details={field: problem})

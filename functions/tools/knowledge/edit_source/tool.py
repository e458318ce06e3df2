"""Edit the title, the author or the tags of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from shared.core.caller import Role, Scope, Tier
from shared.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from shared.core.installation import carrel
from shared.core.text_validation import validate_line
from shared.knowledge.corrections import HOW_TO_CORRECT
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.schemas import Tag, Title, drop_duplicate_tags
from shared.knowledge.source import may_edit
from shared.runtime.schemas import Change, IdempotentArguments, Result, SourceId, Undo
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_no_secrets
from shared.writer.note_repository import build_revision_writes
from shared.writer.source_editing import EditableSource, SourceEditing

if TYPE_CHECKING:
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

MAX_TAGS: Final = 200
"""The maximum number of tags, which is as many as ingest takes from a file."""


def _validate_author(text: str) -> str:
    return validate_line(" ".join(text.split())) if text.strip() else ""


class In(IdempotentArguments):
    """An edit of a source."""

    source_id: SourceId = Field(description="From search_kb.")
    revision: int = Field(ge=0, le=1_000_000, description="From get_source.")
    title: Title | None = Field(default=None, description="The new title.")
    author: Annotated[str, Field(max_length=500), AfterValidator(_validate_author)] | None = Field(
        default=None, description='"" for none. Not for a note.'
    )
    tags: list[Tag] | None = Field(
        default=None,
        max_length=MAX_TAGS,
        description="All its tags; [] removes all.",
    )
    reset: list[Literal["title", "author", "tags"]] = Field(
        default_factory=list,
        max_length=len(EDITABLE),
        description="Fields whose edit to take back.",
    )

    @model_validator(mode="before")
    @classmethod
    def _explain_text(cls, arguments: Any) -> Any:
        if isinstance(arguments, dict) and {"text", "content"} & arguments.keys():
            # Pydantic would report a ValueError as a mistake in a field, to be called again.
            raise InvalidInput(
                "Nothing was changed. Change the text of a note by save_note with its source_id and"
                " revision. That of another source is changed where it came from, which get_source"
                f" says; then it is read again. {HOW_TO_CORRECT}"
            )
        return arguments

    @property
    def values(self) -> dict[str, Any]:
        """The new values, by field name, without fields that are left out."""
        values: dict[str, Any] = {}
        if self.title is not None:
            values["title"] = self.title
        if self.author is not None:
            values["author"] = self.author or None
        if self.tags is not None:
            values["tags"] = drop_duplicate_tags(self.tags)
        return values


class OriginValues(Result):
    """What the file or the library says of the edited fields."""

    title: str | None = Field(default=None, description="Its title there.")
    author: str | None = Field(default=None, description="Its author there.")
    tags: list[str] | None = Field(default=None, description="Its tags there.")


class Out(Result):
    """The source as it is now, and how to undo the edit."""

    source_id: str = Field(description="Its id.")
    revision: int = Field(description="The number of its revision now, to edit it again.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Its author, if it has one.")
    tags: list[str] = Field(description="Its tags.")
    changed: list[str] = Field(description="The fields that this call changed.")
    edited: list[str] = Field(
        description="The fields that stay as they were edited when its file or library is read"
        " again."
    )
    origin: OriginValues | None = Field(
        description="What the file or the library says of the edited fields."
    )
    waiting: int = Field(
        description="How many of its passages wait for the jobs, which bring filters, suggested"
        " names and vectors up to date."
    )
    undo: Undo | None = Field(description="How to undo it; missing if nothing changed.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        return Change.list_undoable("edited", self.source_id, self.title, self.undo)


async def edit_source(args: In, ctx: Context) -> Out:
    """Store an edit in the source and its first 200 passages. The index job updates the others.

    Costs two round trips: the read of the source with its passages, and the commit.

    Raises:
        InvalidInput: There is nothing to change, a field is given and reset, or a text contains a
            secret.
        NotFound: There is no such source.
        Forbidden: The caller is not the owner, and did not save the source.
        Conflict: The source has another revision, or is being forgotten.
    """
    if not args.values and not args.reset:
        raise InvalidInput("Pass at least one of title, author, tags and reset.")
    if both := args.values.keys() & set(args.reset):
        raise InvalidInput(f"Pass {min(both)} either as a value or in reset, not as both.")
    await require_no_secrets(
        {
            "title": args.title or "",
            "author": args.author or "",
            "tags": "\n".join(args.tags or ()),
        }
    )
    return await ctx.database.retry_on_conflict(lambda: _edit(args, ctx))


async def _edit(args: In, ctx: Context) -> Out:
    editing = SourceEditing(ctx.database)
    stored = _require_editable(await editing.get(args.source_id), args, ctx)
    before = stored.source
    after = _apply_edit(stored, args)
    changed = [name for name in EDITABLE if _get_state(before, name) != _get_state(after, name)]
    if not changed:
        return _build_result(before, before, [])
    now = ctx.clock()
    writes = build_revision_writes(stored.snapshot, now)
    writes += editing.build_writes(stored, after, now)
    return await ctx.commit(writes, _build_result(before, after, changed))


def _require_editable(stored: EditableSource | None, args: In, ctx: Context) -> EditableSource:
    """Return the source that the call edits.

    Raises:
        NotFound: There is no such source.
        Forbidden: The caller may not edit it.
        InvalidInput: It is a note, and the call edits or resets a field that notes do not have.
        Conflict: It has another revision, or is being forgotten.
    """
    details = {"source_id": args.source_id}
    if stored is None:
        raise NotFound(
            f"There is no source {args.source_id}. list_sources shows the ids. One that was"
            " forgotten is edited after forget has restored it.",
            details=details,
        )
    if not may_edit(stored.saved_by, ctx.caller):
        raise Forbidden(
            f"Only an owner may edit this; as {ctx.caller.role}, you may edit the notes that you"
            " saved. The operator of this server can change your role:"
            f" {carrel(f'accounts role {ctx.caller.user_id} owner')}",
            details=details,
        )
    if stored.saved_by is not None and (args.author is not None or args.reset):
        raise InvalidInput(
            "A note has no author, and nothing to reset. save_note brings back former revisions.",
            details=details,
        )
    if stored.is_moving:
        raise Conflict(
            "The source is being forgotten. Restore it with forget first.", details=details
        )
    source = stored.source
    if (source.revision or 0) != args.revision:
        raise Conflict(
            f"The source was edited since: it is at revision {source.revision or 0}. Nothing was"
            " stored. Its present fields are in `details`: edit these.",
            details={
                "revision": source.revision or 0,
                "title": source.title,
                "author": source.author,
                "tags": list(source.tags),
            },
        )
    return stored


def _apply_edit(stored: EditableSource, args: In) -> StoredSource:
    """Return the source after the edit. It keeps the values of its origin for edited fields."""
    source = stored.source
    origin_values = dict(source.origin_values or {})
    fields: dict[str, Any] = {
        name: origin_values.pop(name) for name in args.reset if name in origin_values
    }
    for name, value in args.values.items():
        if value != getattr(source, name):
            fields[name] = value
            if stored.saved_by is None:
                origin_values.setdefault(name, getattr(source, name))
    revision = (source.revision or 0) + 1
    return replace(source, **fields, origin_values=origin_values or None, revision=revision)


def _get_state(source: StoredSource, name: str) -> tuple[Any, bool]:
    """Return a field, and whether it is edited."""
    return getattr(source, name), name in source.edited


def _build_result(before: StoredSource, after: StoredSource, changed: list[str]) -> Out:
    is_visible = any(getattr(before, name) != getattr(after, name) for name in changed)
    return Out(
        source_id=after.source_id,
        revision=after.revision or 0,
        title=after.title,
        author=after.author,
        tags=list(after.tags),
        changed=changed,
        edited=after.edited,
        origin=OriginValues(**after.origin_values) if after.origin_values else None,
        waiting=after.chunk_count if is_visible else 0,
        undo=_build_undo(before, after, changed) if changed else None,
    )


def _build_undo(before: StoredSource, after: StoredSource, changed: list[str]) -> Undo:
    """Build the call that gives each changed field its former value, or resets it."""
    arguments: dict[str, Any] = {"source_id": after.source_id, "revision": after.revision}
    reset = [name for name in changed if name in after.edited and name not in before.edited]
    for name in changed:
        if name not in reset:
            value = getattr(before, name)
            arguments[name] = list(value) if name == "tags" else value or ""
    if reset:
        arguments["reset"] = reset
    return Undo(tool="edit_source", arguments=arguments)


def make_message(out: Out) -> str | None:
    """Say that nothing changed, or what follows later."""
    if not out.changed:
        return "Nothing changed: the source is like that already."
    if not out.waiting:
        return None
    return (
        "Filters and suggested names have the former values until the passages are indexed again."
    )


TOOL = Tool(
    name="edit_source",
    title="Edit a source",
    description=(
        "Correct the title, author or tags of a source when the user asks, or reset them. To"
        " correct a text use save_note; to remove a source, forget."
    ),
    input=In,
    output=Out,
    run=edit_source,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    required_scope=Scope.CURATE,
)

"""Edit the title, the author or the tags of a source, or the tags of one of its passages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from shared.core.caller import Role, Scope, Tier
from shared.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from shared.core.ids import parse_source_id
from shared.core.installation import carrel
from shared.core.text_validation import validate_line
from shared.knowledge.chunk_repository import to_chunk
from shared.knowledge.corrections import HOW_TO_CORRECT
from shared.knowledge.overrides import EDITABLE, get_own_tags, set_own_tags
from shared.knowledge.schemas import Tag, Title, drop_duplicate_tags
from shared.knowledge.source import may_edit
from shared.runtime.schemas import (
    Change,
    DocumentId,
    IdempotentArguments,
    Result,
    SourceId,
    Undo,
)
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_no_secrets
from shared.writer.chunked_source import collect_source_facets, describe_excess_tags
from shared.writer.note_repository import build_revision_writes
from shared.writer.source_editing import EditableSource, SourceEditing

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

MAX_TAGS: Final = 200
"""The maximum number of tags, which is as many as ingest takes from a file."""


def _validate_author(text: str) -> str:
    return validate_line(" ".join(text.split())) if text.strip() else ""


class In(IdempotentArguments):
    """An edit of a source, or of a passage."""

    source_id: SourceId | None = Field(default=None, description="From search_kb.")
    chunk_id: DocumentId | None = Field(
        default=None, description="Instead, for the tags of one passage."
    )
    revision: int = Field(
        ge=0, le=1_000_000, description="From get_source or get_chunk; 0 if none."
    )
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
        description="Fields to set back.",
    )

    @model_validator(mode="before")
    @classmethod
    def _explain_text(cls, arguments: Any) -> Any:
        names = set(arguments) if isinstance(arguments, dict) else set()
        # Pydantic would report a ValueError as a mistake in a field, and invite a retry.
        if {"text", "content"} & names:
            raise InvalidInput(
                "Nothing was changed. To edit the text of a note, use save_note with its source_id"
                " and revision. For other sources, edit the original, which get_source names; it is"
                f" then read again. {HOW_TO_CORRECT}"
            )
        if "note" in names:
            raise InvalidInput(
                "Nothing was changed. Save a note on a passage by save_note, with the id of the"
                " passage as about."
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
    """The source or the passage as it is now, and how to undo the edit."""

    source_id: str = Field(description="The id of the source.")
    chunk_id: str | None = Field(description="The id of the passage, if that was edited.")
    revision: int = Field(description="The number of its revision now, to edit it again.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Its author, if it has one.")
    tags: list[str] = Field(description="Its tags; of a passage, without those of its source.")
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
        action = f"edited: {', '.join(self.changed)}"
        return Change.list_undoable(action, self.chunk_id or self.source_id, self.title, self.undo)


async def edit_source(args: In, ctx: Context) -> Out:
    """Store an edit in the source and its first 200 passages. The index job updates the others.

    An edit of a passage rewrites that passage alone.

    Costs two round trips: the read of the source with its passages, and the commit.

    Raises:
        InvalidInput: There is nothing to change, a field is given and reset, both or neither of
            source and passage are given, or a text contains a secret.
        NotFound: There is no such source or passage.
        Forbidden: The caller is not the owner, and did not save the source.
        Conflict: The source or passage has another revision, or the source is being forgotten.
    """
    if (args.source_id is None) == (args.chunk_id is None):
        raise InvalidInput(
            "Pass either source_id, to edit a source, or chunk_id, to edit the tags of one passage."
        )
    if args.chunk_id and {*args.values, *args.reset} - {"tags"}:
        raise InvalidInput(
            "A passage has the title and the author of its source. To edit these, pass"
            f" source_id {parse_source_id(args.chunk_id)} without chunk_id."
        )
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
    source_id = args.source_id or parse_source_id(str(args.chunk_id))
    stored = _require_editable(await editing.get(source_id, args.chunk_id), args, ctx)
    if args.chunk_id:
        return await _edit_passage(stored, args, ctx)
    before = stored.source
    after = _apply_edit(stored, args, ctx.caller.client)
    changed = [name for name in EDITABLE if _get_state(before, name) != _get_state(after, name)]
    if not changed:
        return _build_result(before, before, [])
    now = ctx.clock()
    writes = build_revision_writes(stored.snapshot, now)
    writes += editing.build_writes(stored, after, now)
    return await ctx.commit(writes, _build_result(before, after, changed))


async def _edit_passage(stored: EditableSource, args: In, ctx: Context) -> Out:
    before, source = _get_chunk(stored), stored.source
    origin_values = source.origin_values or {}
    tags = None
    if args.tags is not None:
        tags = tuple(tag for tag in args.values["tags"] if tag not in source.tags)
    own_tags = get_own_tags(before, origin_values.get("tags", source.tags))
    if before.origin_tags is None and tags in {None, own_tags}:
        return _build_passage_result(before, own_tags, None)
    after = set_own_tags(before, tags, source, origin_values)
    if after == before:
        return _build_passage_result(before, own_tags, None)
    after = replace(after, revision=(before.revision or 0) + 1)
    facets = source.facets.union(collect_source_facets([after]))
    if excess := describe_excess_tags(facets):
        raise InvalidInput(f"Nothing was changed. With these tags, the source {excess}.")
    writes = SourceEditing(ctx.database).build_chunk_writes(stored, after, facets, ctx.clock())
    former = {"reset": ["tags"]} if before.origin_tags is None else {"tags": list(own_tags)}
    call = {"chunk_id": after.chunk_id, "revision": after.revision, **former}
    new_tags = get_own_tags(after, source.tags)
    out = _build_passage_result(after, new_tags, Undo(tool="edit_source", arguments=call))
    return await ctx.commit(writes, out)


def _build_passage_result(chunk: Chunk, own_tags: tuple[str, ...], undo: Undo | None) -> Out:
    is_edited = chunk.origin_tags is not None
    return Out(
        source_id=chunk.source_id,
        chunk_id=chunk.chunk_id,
        revision=chunk.revision or 0,
        title=chunk.title,
        author=chunk.author,
        tags=list(own_tags),
        changed=["tags"] if undo else [],
        edited=["tags"] if is_edited else [],
        origin=OriginValues(title=None, author=None, tags=chunk.origin_tags) if is_edited else None,
        waiting=1 if undo else 0,
        undo=undo,
    )


def _get_chunk(stored: EditableSource) -> Chunk:
    [document] = stored.chunks
    return to_chunk(document.id, document.fields)


def _require_editable(stored: EditableSource | None, args: In, ctx: Context) -> EditableSource:
    """Return the source that the call edits, or that of the passage.

    Raises:
        NotFound: There is no such source or passage.
        Forbidden: The caller may not edit it.
        InvalidInput: It is a note, and the call edits or resets a field that notes do not have.
        Conflict: It has another revision, or is being forgotten.
    """
    details = {"chunk_id": args.chunk_id} if args.chunk_id else {"source_id": args.source_id}
    if args.chunk_id and not (stored and stored.chunks):
        raise NotFound(
            f"There is no passage {args.chunk_id}. Ids change when a text is edited. Search again"
            " with search_kb.",
            details=details,
        )
    if stored is None:
        raise NotFound(
            f"There is no source {args.source_id}. list_sources shows the ids. To edit a"
            " forgotten source, restore it with forget first.",
            details=details,
        )
    if not may_edit(stored.saved_by, ctx.caller):
        raise Forbidden(
            f"Only an owner may edit this; as {ctx.caller.role}, you may edit the notes that you"
            " saved. The operator of this server can change your role:"
            f" {carrel(f'accounts role {ctx.caller.user_id} owner')}",
            details=details,
        )
    if stored.saved_by is not None and args.chunk_id:
        raise InvalidInput(
            "A passage of a note has the tags of the note. To edit these, pass source_id"
            f" {stored.source.source_id} without chunk_id.",
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
    edited = _get_chunk(stored) if args.chunk_id else stored.source
    if (edited.revision or 0) != args.revision:
        raise Conflict(
            f"The {'passage' if args.chunk_id else 'source'} was edited since: it is at revision"
            f" {edited.revision or 0}. Nothing was stored. Its present fields are in `details`:"
            " edit these.",
            details={
                "revision": edited.revision or 0,
                "title": edited.title,
                "author": edited.author,
                "tags": list(edited.tags),
            },
        )
    return stored


def _apply_edit(stored: EditableSource, args: In, client: str | None) -> StoredSource:
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
            else:
                fields["saved_with"] = client
    revision = (source.revision or 0) + 1
    return replace(source, **fields, origin_values=origin_values or None, revision=revision)


def _get_state(source: StoredSource, name: str) -> tuple[Any, bool]:
    """Return a field, and whether it is edited."""
    return getattr(source, name), name in source.edited


def _build_result(before: StoredSource, after: StoredSource, changed: list[str]) -> Out:
    is_visible = any(getattr(before, name) != getattr(after, name) for name in changed)
    return Out(
        source_id=after.source_id,
        chunk_id=None,
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
    if not out.changed and out.chunk_id:
        return "Nothing changed: the passage has these tags already, beside those of its source."
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
        "Correct the title, author or tags of a source, or a passage's tags, or reset them. To"
        " correct a text use save_note; to remove it, forget."
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

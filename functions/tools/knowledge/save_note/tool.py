"""Save a note in the knowledge base, or change one."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from functions.tools.knowledge.save_note.arguments import In, require_subject
from functions.tools.knowledge.save_note.results import (
    Out,
    build_duplicate_result,
    build_note_result,
    make_message,
)
from shared.ai.embedding import Purpose
from shared.core.caller import Role, Scope, Tier
from shared.core.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PlatformFault,
    RateLimited,
    Unavailable,
)
from shared.core.ids import IdKind, make_id
from shared.core.log import error_fields, log
from shared.firestore.claims import load_claim
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.corrections import explain_text_edit
from shared.knowledge.notes_about import load_subject_title
from shared.knowledge.source import may_edit
from shared.knowledge.source_repository import FORMER_REVISIONS, Sources
from shared.runtime.capabilities import Capability
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_no_secrets
from shared.text.splitting import CHUNK_LIMITS
from shared.writer.chunk_changes import ChunkVectors
from shared.writer.note import default_title
from shared.writer.note_duplicates import find_neighbours, find_same_note
from shared.writer.note_repository import Notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.claims import Claim
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.writer.chunked_source import ChunkedSource
    from shared.writer.note import NoteContent
    from shared.writer.note_repository import StoredNote


_ARGUMENTS: Final = {"source_url": "url", "about_id": "about", "about_gone": "about"}
"""The names of arguments by the names of the note's fields that they set, where they differ."""


async def save_note(args: In, ctx: Context) -> Out:
    """Store and index a note, so that search finds it with the next call.

    Costs three round trips. For a new note: the reads of the embedding space and of what it is
    about; the search for the nearest notes and the read of the claim to the text; the commit. A
    fourth one reads a note that has the text already. For a change: the reads of the note and of
    the revision to bring back; the reads of the embedding space, of the claim and of what the note
    is about; the commit. Up to three more delete the extractions of passages that disappear.

    Raises:
        InvalidInput: Arguments are missing or exclude each other, or a text contains a secret.
        NotFound: There is no such passage, source, note or revision.
        Forbidden: Someone else saved the note.
        Conflict: The note has another revision, is being forgotten or restored, or would get the
            text of another note.
    """
    args.require_consistent()
    if args.source_id is None:
        return await _save_new(args, ctx)
    source_id = args.source_id
    return await ctx.database.retry_on_conflict(lambda: _change(source_id, args, ctx))


async def _save_new(args: In, ctx: Context) -> Out:
    content = replace(args.build_content(), saved_with=ctx.caller.client)
    await _screen(content)
    limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
    source_id = make_id(IdKind.NOTE, secrets.token_hex(8))
    note = await asyncio.to_thread(content.to_chunked_source, source_id, limits, ctx.clock())
    vectors, about_title = await asyncio.gather(
        _embed_chunks(note.chunks, ctx), _load_about_title(content, args, ctx)
    )
    return await ctx.database.retry_on_conflict(
        lambda: _store(note, content.claim_id, vectors, args, ctx, about_title=about_title)
    )


async def _store(  # noqa: PLR0913 - what was read for the note, each by its name
    note: ChunkedSource,
    claim_id: str,
    vectors: ChunkVectors,
    args: In,
    ctx: Context,
    *,
    about_title: str | None,
) -> Out:
    claim, neighbours = await asyncio.gather(
        load_claim(ctx.database, claim_id), find_neighbours(note.chunks, vectors, ctx.database)
    )
    duplicate = await find_same_note(claim, neighbours.same, ctx.database)
    if duplicate and not args.again:
        return build_duplicate_result(duplicate, ctx)
    user_id = str(ctx.caller.user_id)
    writes = Notes(ctx.database).build_creation_writes(
        note, user_id, vectors, None if duplicate else claim, ctx.clock()
    )
    waiting = len(note.chunks) - len(vectors.by_chunk)
    out = build_note_result(
        note, 1, ctx, similar=neighbours.near, waiting=waiting, about_title=about_title
    )
    return await ctx.commit(writes, out)


async def _change(source_id: str, args: In, ctx: Context) -> Out:
    stored, former = await asyncio.gather(
        Notes(ctx.database).get(source_id), _load_former_content(source_id, args, ctx)
    )
    if stored is None:
        raise await _make_no_note_error(source_id, ctx)
    note = _require_changeable(stored, args, ctx)
    content = former or args.change_content(note.note.content)
    require_subject(content)
    before, after = asdict(note.note.content), asdict(content)
    differing = [name for name in after if after[name] != before[name] and name != "saved_with"]
    changed = list(dict.fromkeys(_ARGUMENTS.get(name, name) for name in differing))
    if not changed:
        return build_duplicate_result(note, ctx)
    content = replace(content, saved_with=ctx.caller.client)
    await _screen(content)
    limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
    chunked = await asyncio.to_thread(content.to_chunked_source, source_id, limits, ctx.clock())
    missing = note.select_unembedded(chunked.chunks)
    notes = Notes(ctx.database)
    vectors, deleted, claim, about_title = await asyncio.gather(
        _embed_chunks(missing, ctx),
        notes.load_deleted_chunks(note, chunked.chunks),
        _load_claim(note, content, args, ctx),
        _load_about_title(content, args, ctx),
    )
    writes = await notes.build_update_writes(
        note, chunked, vectors, deleted, claim=claim, now=ctx.clock()
    )
    waiting = len(missing) - len(vectors.by_chunk)
    revision = note.note.revision + 1
    out = build_note_result(
        chunked, revision, ctx, changed=changed, waiting=waiting, about_title=about_title
    )
    return await ctx.commit(writes, out)


async def _make_no_note_error(source_id: str, ctx: Context) -> NotFound | InvalidInput:
    """Return the error for a source that is not a note. It says how its text is corrected."""
    source = await Sources(ctx.database).get(source_id)
    details = {"source_id": source_id}
    if source is None:
        return NotFound(
            f'There is no note {source_id}. Find notes with list_sources and the category "note".',
            details=details,
        )
    return InvalidInput(await explain_text_edit(source, ctx.database), details=details)


def _require_changeable(stored: StoredNote, args: In, ctx: Context) -> StoredNote:
    """Return the note that the call changes.

    Raises:
        Forbidden: Someone else saved it.
        Conflict: It has another revision, or is being forgotten or restored.
    """
    note, source_id = stored.note, stored.note.source_id
    if not may_edit(note.saved_by, ctx.caller):
        raise Forbidden(
            "Someone else saved this note: only they and the owner of this knowledge base can"
            " change it. Save a note of your own.",
            details={"source_id": source_id},
        )
    if note.saved_by != ctx.caller.user_id and Scope.CURATE not in ctx.caller.scopes:
        raise Forbidden(
            "Someone else saved this note: to change it, your credential needs the scope"
            f" {Scope.CURATE}. Sign in again and allow it, or save a note of your own.",
            details={"source_id": source_id},
        )
    if stored.is_moving:
        raise Conflict(
            "This note is being forgotten or restored, and nothing was stored. That is complete"
            " within 15 minutes: try again then.",
            details={"source_id": source_id},
        )
    if note.revision != args.revision:
        raise Conflict(
            f"The note has changed since: it is at revision {note.revision}. Nothing was stored."
            " Read its present text in `details`, and change that.",
            details={"revision": note.revision, "title": note.title, "text": note.text},
        )
    return stored


async def _load_former_content(source_id: str, args: In, ctx: Context) -> NoteContent | None:
    """Load the revision to bring back, if any.

    Raises:
        NotFound: The revision does not exist, or is no longer kept.
    """
    number = args.restore_revision
    if number is None:
        return None
    content = await Notes(ctx.database).get_revision(source_id, number, ctx.clock())
    if content is None:
        raise NotFound(
            f"There is no former revision {number} of this note. Former revisions are kept for"
            f" {FORMER_REVISIONS.period}.",
            details={"restore_revision": number},
        )
    return content


async def _load_claim(
    stored: StoredNote, content: NoteContent, args: In, ctx: Context
) -> Claim | None:
    """Load the claim to the new text of a note, or None if another note has that text.

    Costs one round trip, or two if the claim is held by another note.

    Raises:
        Conflict: Another note has the text, and the caller did not say `again`.
    """
    claim = await load_claim(ctx.database, content.claim_id)
    if claim.holder in (None, stored.note.source_id):
        return claim
    other = await find_same_note(claim, [], ctx.database)
    if other is None:
        return claim
    if content.claim_id != stored.note.content.claim_id and not args.again:
        raise Conflict(
            f"The note {other.note.source_id} says the same already. Nothing was stored. Forget one"
            ' of the two, or send this again with "again": true.',
            details={"duplicate": other.note.source_id, "title": other.note.title},
        )
    return None


async def _load_about_title(content: NoteContent, args: In, ctx: Context) -> str | None:
    """Load the title of what the note is about, or None if that is gone.

    Raises:
        NotFound: The call names it, but it does not exist.
    """
    title = await load_subject_title(content.about_id, ctx.database)
    if args.about and title is None:
        raise NotFound(
            f"There is no passage or source {args.about}. Search again with search_kb, or leave"
            " about out.",
            details={"about": args.about},
        )
    return title


async def _screen(content: NoteContent) -> None:
    await require_no_secrets(
        {
            "text": content.text,
            "title": "" if content.title == default_title(content.text) else content.title,
            "tags": "\n".join(content.tags),
            "url": content.source_url or "",
        }
    )


async def _embed_chunks(chunks: Sequence[Chunk], ctx: Context) -> ChunkVectors:
    """Embed chunks. Return no vectors if the provider is down, too slow or rejects the call.

    A job then embeds the chunks later. Costs one round trip, or two if nothing was ever embedded.

    Raises:
        Conflict: The knowledge base is embedded with another model.
    """
    model = ctx.embedder.model
    if not chunks:
        return ChunkVectors(model, {})
    try:
        # Half of the remaining time is left for the commit.
        async with asyncio.timeout(None if ctx.seconds_left is None else ctx.seconds_left / 2):
            texts = [chunk.embedding_text for chunk in chunks]
            await EmbeddingSpace(ctx.database).claim(ctx.embedder, texts)
            vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT)
    except (PlatformFault, RateLimited, TimeoutError, Unavailable) as error:
        if isinstance(error, PlatformFault):  # unlike an outage, it needs an operator
            log.error("note_not_embedded", **error_fields(error))
        return ChunkVectors(model, {})
    ids = [chunk.chunk_id for chunk in chunks]
    return ChunkVectors(model, dict(zip(ids, vectors, strict=True)))


TOOL = Tool(
    name="save_note",
    title="Save a note",
    description=(
        "Save a fact, preference, decision or thought when the user asks to remember it, correct a"
        " passage (corrects), or change a note (source_id, revision). Everyone with access can read"
        " it, perhaps the whole world: leave out what is private. For to-dos use add_task; for"
        " solved coding problems contribute_trace."
    ),
    input=In,
    output=Out,
    run=save_note,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    capabilities=frozenset({Capability.EMBEDDING}),
    settings=("public_access",),
)

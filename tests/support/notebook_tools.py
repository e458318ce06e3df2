"""Small tools for tests of what all tools have in common: prices, writes, time limits, failures.

Two tools write to and read from a private notebook of the caller. The others return a fixed text.
"""

import asyncio
from typing import Any, Literal

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.firestore.documents import Reference
from shared.firestore.writes import put_if_unchanged
from shared.runtime.context import Context
from shared.runtime.outcome import Outcome
from shared.runtime.schemas import Arguments, IdempotentArguments, Result
from shared.runtime.tool import Effect, Tool

PRICE = 1_000
"""The price of a note in millionths of a dollar."""


class Note(IdempotentArguments):
    """A note to write down."""

    text: str = Field(description="The text to write down.", max_length=1_000)
    then: Literal["answer", "break", "dawdle", "refuse"] = Field(
        default="answer",
        description="What to do after the note is written; `refuse` fails before that.",
    )


class Written(Result):
    """A note that was written down."""

    number: int = Field(description="The number of notes, including this one.")


class Nothing(Arguments):
    """No arguments."""


class Notes(Result):
    """All notes."""

    texts: list[str] = Field(description="The texts of the notes, in order.")


def notebook(ctx: Context) -> Reference:
    """Return the document of the caller's notebook for the current task."""
    path = f"users/{ctx.caller.user_id}/notebook"
    return Reference(path, ctx.caller.task or "notes")


async def write_note(args: Note, ctx: Context) -> Outcome[Written]:
    """Add a note to the caller's notebook, in one commit. Its price is the text's length."""
    if args.then == "refuse":
        raise NotFound("There is no such notebook.")
    database, notes = ctx.database, notebook(ctx)

    async def attempt() -> Outcome[Written]:
        snapshot = await database.get(notes)
        texts = [*(snapshot.get("texts") if snapshot.exists else []), args.text]
        outcome = Outcome(Written(number=len(texts)), price=len(args.text))
        return await ctx.commit([put_if_unchanged(snapshot, {"texts": texts})], outcome)

    written = await database.retry_on_conflict(attempt)
    if args.then == "break":
        raise RuntimeError(args.text)
    if args.then == "dawdle":
        await asyncio.Event().wait()
    return written


async def read_notes(_args: Nothing, ctx: Context) -> Notes:
    """Read the caller's notebook."""
    snapshot = await ctx.database.get(notebook(ctx))
    return Notes(texts=snapshot.get("texts") if snapshot.exists else [])


async def read_sign(_args: Nothing, _context: Context) -> Notes:
    """Return a text that is free and public."""
    return Notes(texts=["Welcome."])


async def read_fortune(_args: Nothing, _context: Context) -> Notes:
    """Return a text that is public and costs money."""
    return Notes(texts=["You will read a lot."])


TOOLS: list[Tool[Any, Any]] = [
    Tool(
        name="write_note",
        title="Write a note",
        description="Adds a note to the caller's own notebook. It exists for tests.",
        input=Note,
        output=Written,
        run=write_note,
        effect=Effect.WRITE,
        tier=Tier.REGISTERED,
        price=PRICE,
        timeout=5.0,
    ),
    Tool(
        name="read_notes",
        title="Read notes",
        description="Reads the caller's own notebook. It exists for tests.",
        input=Nothing,
        output=Notes,
        run=read_notes,
        effect=Effect.READ,
        tier=Tier.REGISTERED,
    ),
    Tool(
        name="read_sign",
        title="Read the sign",
        description="Reads what hangs on the door, for everybody. It exists for tests.",
        input=Nothing,
        output=Notes,
        run=read_sign,
        effect=Effect.READ,
        tier=Tier.PUBLIC,
    ),
    Tool(
        name="read_fortune",
        title="Read a fortune",
        description="Reads what will be, for whoever pays. It exists for tests.",
        input=Nothing,
        output=Notes,
        run=read_fortune,
        effect=Effect.READ,
        tier=Tier.PUBLIC,
        price=PRICE,
    ),
]

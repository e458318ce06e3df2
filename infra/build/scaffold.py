"""Creates the files of a new tool: a declaration to fill in, and a first test."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT
from shared.core.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"([a-z]+)/([a-z]+(?:_[a-z]+)+)")
"""A group and a name of at least two words, a verb and a noun."""

_READING_TOOL: Final = '''"""What the tool does, in one imperative sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(Arguments):
    """The arguments of the tool."""

    name: str = Field(description="Describe every field: the model reads it.", max_length=200)


class Out(Result):
    """The result of the tool."""

    greeting: str = Field(description="Describe every field.")


async def {name}(args: In, ctx: Context) -> Out:
    """Return a greeting, without a round trip. Say here what the call reads and writes."""
    return Out(greeting=f"Hello, {{args.name}}, it is {{ctx.clock():%H:%M}}.")


TOOL = Tool(
    name="{name}",
    title="{title}",
    description="Say to the model in one or two sentences when to use this tool, and when another.",
    input=In,
    output=Out,
    run={name},
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
'''

_READING_TEST: Final = '''"""`{name}`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.{group}.{name}.tool import In, {name}

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


def make_arguments(**changes: Any) -> In:
    """Valid arguments, of which a test changes some."""
    return In(**{{"name": "Ada"}} | changes)


async def test_it_greets_by_name(ctx: Context) -> None:
    out = await {name}(make_arguments(name="Grace"), ctx)
    assert out.greeting.startswith("Hello, Grace")


async def test_a_call_reads_nothing(ctx: Context, meter: Meter) -> None:
    await {name}(make_arguments(), ctx)
    assert meter.round_trips == 0
    assert meter.documents_read == 0
'''

_WRITING_TOOL: Final = '''"""What the tool does, in one imperative sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, StringConstraints

from shared.core.caller import Tier
from shared.core.text_validation import validate_prose
from shared.firestore.writes import put_if_unchanged
from shared.runtime.schemas import DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context

Text = Annotated[str, StringConstraints(max_length=1_000), AfterValidator(validate_prose)]


class In(IdempotentArguments):
    """The arguments of the tool, in addition to the idempotency key."""

    item_id: DocumentId = Field(description="Describe every field: the model reads it.")
    text: Text | None = Field(default=None, description="The text to store; null removes it.")


class Out(Result):
    """The result of the tool."""

    item_id: str = Field(description="Describe every field.")
    text: str | None = Field(description="The stored text; missing if there is none.")
    undo: Undo | None = Field(description="How to undo the change; missing if nothing changed.")


async def {name}(args: In, ctx: Context) -> Out:
    """Store a text of the caller in two round trips: the read of the document, and the commit.

    Raises:
        Unavailable: Every attempt failed because another call changed the document.
    """
    item = ctx.database.document(f"users/{{ctx.caller.user_id}}/{name}", args.item_id)

    async def attempt() -> Out:
        stored = await ctx.database.get(item)
        previous = stored.get("text") if stored.exists else None
        if args.text == previous:
            return Out(item_id=args.item_id, text=previous, undo=None)
        undo = Undo(tool="{name}", arguments={{"item_id": args.item_id, "text": previous}})
        # The commit raises `WriteConflict` if the document changed since it was read. It stores the
        # result too, so that a repeated call changes nothing.
        return await ctx.commit(
            [put_if_unchanged(stored, {{"text": args.text}})],
            Out(item_id=args.item_id, text=args.text, undo=undo),
        )

    return await ctx.database.retry_on_conflict(attempt)


TOOL = Tool(
    name="{name}",
    title="{title}",
    description="Say to the model in one or two sentences when to use this tool, and when another.",
    input=In,
    output=Out,
    run={name},
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
)
'''

_WRITING_TEST: Final = '''"""`{name}`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.{group}.{name}.tool import In, {name}
from tests.support.tool_calls import call

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio


def make_arguments(**changes: Any) -> In:
    """Valid arguments, of which a test changes some."""
    return In(**{{"item_id": "one", "text": "A text."}} | changes)


async def test_it_stores_the_text(ctx: Context) -> None:
    out = await {name}(make_arguments(text="New."), ctx)
    assert out.text == "New."


async def test_its_undo_hint_restores_the_text(ctx: Context) -> None:
    await {name}(make_arguments(text="Before."), ctx)
    changed = await {name}(make_arguments(text="After."), ctx)
    assert changed.undo
    restored = await {name}(In(**changed.undo.arguments), ctx)
    assert restored.text == "Before."


async def test_a_repeated_call_writes_once(app: App) -> None:
    arguments = make_arguments(idempotency_key="k").model_dump()
    first = await call(app, "{name}", **arguments)
    second = await call(app, "{name}", **arguments)
    assert second.result == first.result
    assert first.receipt.replayed is None
    assert second.receipt.replayed is True


async def test_a_change_is_two_round_trips(ctx: Context, meter: Meter) -> None:
    await {name}(make_arguments(), ctx)
    assert meter.round_trips == 2
    assert meter.documents_read == 1
    assert meter.documents_written == 1


async def test_no_change_is_one_round_trip(ctx: Context, meter: Meter) -> None:
    await {name}(make_arguments(text=None), ctx)
    assert meter.round_trips == 1
    assert meter.documents_read == 1
    assert meter.documents_written == 0
'''


def create_tool(path: str, root: Path = ROOT, *, writes: bool = False) -> list[Path]:
    """Write a new tool and its first test. Afterwards `make fix` adds it to the generated files.

    Args:
        path: The tool's group and name, such as `knowledge/count_chunks`.
        root: The folder of the checkout.
        writes: Whether the tool changes data.

    Raises:
        InvalidInput: The path does not have the form `group/verb_noun`.
        Conflict: A tool with this name exists.
    """
    match = _NAME.fullmatch(path)
    if not match:
        message = f"{path!r} is not GROUP/NAME in lower case, such as knowledge/count_chunks."
        raise InvalidInput(message)
    group, name = match.groups()
    tools = root / "functions" / "tools"
    if any(tools.glob(f"*/{name}")):
        raise Conflict(f"The tool {name} exists already.")
    files = {
        tools / group / name / "tool.py": _WRITING_TOOL if writes else _READING_TOOL,
        root / "tests" / "emulator" / group / f"test_{name}.py": (
            _WRITING_TEST if writes else _READING_TEST
        ),
    }
    title = name.replace("_", " ").capitalize()
    for file, template in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(template.format(group=group, name=name, title=title), "utf-8")
    return list(files)

"""A new tool's folder, with a declaration to fill in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT
from shared.core.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"([a-z]+)/([a-z]+(?:_[a-z]+)+)")

_TOOL: Final = '''"""What the tool does, in one imperative sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(Arguments):
    """What the tool takes."""

    name: str = Field(description="Describe every field: the model reads it.", max_length=200)


class Out(Result):
    """What the tool returns."""

    greeting: str = Field(description="Describe every field.")


async def {name}(args: In, ctx: Context) -> Out:
    """Say how many round trips deep the call is, and what it reads."""
    return Out(greeting=f"Hello, {{args.name}}, it is {{ctx.clock():%H:%M}}.")


TOOL = Tool(
    name="{name}",
    title="{title}",
    description="For the model: when to use this tool, and when another.",
    input=In,
    output=Out,
    run={name},
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
'''

_TEST: Final = '''"""`{name}`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.tools.{group}.{name}.tool import In, {name}

if TYPE_CHECKING:
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


async def test_it_greets_by_name(ctx: Context) -> None:
    assert (await {name}(In(name="Ada"), ctx)).greeting.startswith("Hello, Ada")
'''


def create_tool(path: str, root: Path = ROOT) -> list[Path]:
    """Write a new tool and its first test; `make fix` then adds it to the generated files.

    Args:
        path: Its group and its name: `knowledge/count_chunks`.
        root: The checkout.

    Raises:
        InvalidInput: The path is not of the form `group/verb_noun`.
        Conflict: There is such a tool already.
    """
    match = _NAME.fullmatch(path)
    if not match:
        message = f"{path!r} is not a group and a name in lower case: knowledge/count_chunks."
        raise InvalidInput(message)
    group, name = match.groups()
    tools = root / "functions" / "tools"
    folder = tools / group / name
    if any(tools.glob(f"*/{name}")):
        raise Conflict(f"There is a tool {name} already.")
    files = {
        folder / "tool.py": _TOOL,
        root / "tests" / "emulator" / group / f"test_{name}.py": _TEST,
    }
    title = name.replace("_", " ").capitalize()
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(group=group, name=name, title=title), "utf-8")
    return list(files)

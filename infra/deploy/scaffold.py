"""A new tool's folder, with a declaration to fill in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT
from shared.core.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"[a-z]+(_[a-z]+)+")

_TOOL: Final = '''"""What the tool does, in one imperative sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.tool import Arguments, Effect, Result, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Deps


class In(Arguments):
    """What the tool takes."""

    name: str = Field(description="Describe every field: the model reads it.", max_length=200)


class Out(Result):
    """What the tool returns."""

    greeting: str = Field(description="Describe every field.")


async def {name}(args: In, deps: Deps) -> Out:
    """Say how many round trips deep the call is, and what it reads."""
    return Out(greeting=f"Hello, {{args.name}}, it is {{deps.clock():%H:%M}}.")


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

_MAIN: Final = '''"""The Cloud Function of `{name}`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.{name}.tool import TOOL

handle = serve(TOOL)
'''

_TEST: Final = '''"""`{name}`, against the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from functions.tools.{name}.tool import In, {name}

if TYPE_CHECKING:
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio


async def test_it_greets_by_name(deps: Deps) -> None:
    assert (await {name}(In(name="Ada"), deps)).greeting.startswith("Hello, Ada")
'''


def create_tool(name: str, root: Path = ROOT) -> list[Path]:
    """Write a new tool and its first test; `make fix` then adds it to the generated files.

    Raises:
        InvalidInput: The name is not of the form `verb_noun`.
        Conflict: There is such a tool already.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is no tool name: use lower-case words, verb_noun.")
    folder = root / "functions" / "tools" / name
    if folder.exists():
        raise Conflict(f"There is a tool {name} already.")
    files = {
        folder / "tool.py": _TOOL,
        folder / "main.py": _MAIN,
        root / "tests" / "emulator" / "tools" / f"test_{name}.py": _TEST,
    }
    title = name.replace("_", " ").capitalize()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(name=name, title=title), "utf-8")
    return list(files)

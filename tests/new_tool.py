"""Creates a tool as a copy of another, which passes its tests and is then changed step by step.

Usage: python -m tests.new_tool GROUP/NAME [LIKE], which `make new-tool` runs.
"""

import re
import sys
from pathlib import Path
from typing import Final

from infra.build.discovery import ROOT
from shared.core.errors import Conflict, InvalidInput, NotFound, ToolFailure

MODEL: Final = "list_clusters"
"""The tool that is copied by default. It reads a page; `delete_task` writes."""
_NAME: Final = re.compile(r"([a-z]+)/([a-z]+(?:_[a-z]+)+)")
"""A group and a name of at least two words, a verb and a noun."""
_REQUIREMENT_MARKER: Final = re.compile(r"@pytest\.mark\.requirement\([^)]*\)\n")
"""What a copied test does not show: requirements of the tool that it is a copy of."""


def create_tool(path: str, like: str = MODEL, root: Path = ROOT) -> list[Path]:
    """Copy a tool, its test and its example under another name. `make fix` then adds it to lists.

    Args:
        path: The new tool's group and name, such as `knowledge/count_chunks`.
        like: The name of the tool to copy.
        root: The folder of the checkout.

    Raises:
        InvalidInput: The path does not have the form `group/verb_noun`.
        NotFound: There is no tool `like`.
        Conflict: A tool with this name exists.
    """
    match = _NAME.fullmatch(path)
    if not match:
        message = (
            f"{path!r} is not GROUP/NAME in lower case, with a verb and a noun as NAME, such as"
            " knowledge/count_chunks."
        )
        raise InvalidInput(message)
    group, name = match.groups()
    tools, tests = root / "functions" / "tools", root / "tests" / "emulator"
    if any(tools.glob(f"*/{name}")):
        raise Conflict(f"The tool {name} exists already.")
    model = next(tools.glob(f"*/{like}"), None)
    if not model:
        raise NotFound(f"There is no tool {like!r} to copy.")
    copies = {file: tools / group / name / file.name for file in sorted(model.glob("*.py"))}
    folder = tests / model.parent.name
    for pattern in ("test_{}.py", "__snapshots__/test_{}.ambr"):
        if (file := folder / pattern.format(like)).exists():
            copies[file] = tests / group / pattern.format(name)
    for file, copy in copies.items():
        text = _REQUIREMENT_MARKER.sub("", file.read_text("utf-8"))
        if "pytest." not in text:
            text = text.replace("import pytest\n\n", "")
        text = text.replace(f"{model.parent.name}.{like}", f"{group}.{name}")
        text = re.sub(rf"\b{like}\b", name, text)
        title = name.replace("_", " ").capitalize()
        text = re.sub(r'^    title=".*"', f'    title="{title}"', text, flags=re.MULTILINE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")
    _copy_example(root / "tests" / "examples", like, name)
    return list(copies.values())


def _copy_example(folder: Path, like: str, name: str) -> None:
    """Add a copy of a tool's example after it, in the module that has it."""
    entry = re.compile(rf'^    "{like}": Example\((?:.+|\n(?:.*\n)*?    )\),\n', re.MULTILINE)
    for module in folder.glob("*.py"):
        text = module.read_text("utf-8")
        if example := entry.search(text):
            copy = example[0].replace(f'"{like}"', f'"{name}"', 1)
            module.write_text(text[: example.end()] + copy + text[example.end() :], "utf-8")


if __name__ == "__main__":
    try:
        created = create_tool(sys.argv[1], (sys.argv[2:] or [MODEL])[0])
    except ToolFailure as failure:
        sys.exit(failure.message)
    print("wrote", *created, sep="\n  ")  # noqa: T201 - a command's answer

"""A pytest plugin that selects the tests of one tool: `pytest --tool search_kb`.

A test is a tool's if its module imports the tool, or if its code or its parameters name it. Of a
contract, only the parameters of that tool remain.
"""

import inspect
import re
from pathlib import Path

import pytest

from infra.build.discovery import ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run name a tool."""
    parser.addoption("--tool", metavar="NAME", help="run only the tests of this tool")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a name that no tool has."""
    name = config.option.tool
    if name and not any((ROOT / "functions" / "tools").glob(f"*/{name}")):
        raise pytest.UsageError(f"There is no tool {name!r}.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules that do not name the tool, whose import would take most of the time."""
    name = config.option.tool
    if not name or collection_path.suffix != ".py" or collection_path.parent.name == "contract":
        return None
    return name not in collection_path.read_text("utf-8") or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other tools."""
    name = config.option.tool
    if not name:
        return
    imported = re.compile(rf"functions\.tools\.\w+\.{name}\b")
    quoted = re.compile(rf"""["']{name}["']""")
    in_id = re.compile(rf"(?<![a-z]){name}(?![a-z])")

    def is_selected(item: pytest.Item) -> bool:
        if in_id.search(item.nodeid) or imported.search(item.path.read_text("utf-8")):
            return True
        function = getattr(item, "function", None)
        return bool(function and quoted.search(inspect.getsource(function)))

    selected = {item for item in items if is_selected(item)}
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]

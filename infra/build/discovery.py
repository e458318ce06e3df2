"""Finds all tools, jobs and retentions, for generated files, bundles, tests and local runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from shared.core import installation

if TYPE_CHECKING:
    from pathlib import Path

    from shared.firestore.retention import Retention
    from shared.runtime.job import Job
    from shared.runtime.tool import Tool

ROOT: Final = installation.ROOT
"""The checkout, or the `site-packages` folder of an installed package."""


def tools() -> list[Tool[Any, Any]]:
    """Import and return all tools, sorted by name. A failing import fails the build."""
    return sorted(
        (import_module(module).TOOL for module in _find_modules("functions/tools/*/*/tool.py")),
        key=lambda tool: tool.name,
    )


def find_tool(name: str) -> Tool[Any, Any]:
    """Import and return the tool with this name."""
    [module] = _find_modules(f"functions/tools/*/{name}/tool.py")
    tool: Tool[Any, Any] = import_module(module).TOOL
    return tool


def get_package_name(tool: Tool[Any, Any]) -> str:
    """Return the full name of a tool's package, such as `functions.tools.tasks.add_task`."""
    [path] = ROOT.glob(f"functions/tools/*/{tool.name}")
    return ".".join(path.relative_to(ROOT).parts)


def get_group_name(tool: Tool[Any, Any]) -> str:
    """Return the name of a tool's group: the folder that contains its package."""
    return get_package_name(tool).split(".")[2]


def jobs() -> list[Job]:
    """Import and return all jobs, sorted by name."""
    return [import_module(module).JOB for module in _find_modules("functions/jobs/*/job.py")]


def retentions() -> dict[str, Retention]:
    """Import and return how long documents are kept, by collection."""
    from shared.firestore.retention import Retention

    modules = [
        import_module(_get_module_name(path))
        for folder in ("shared", "functions")
        for path in ROOT.glob(f"{folder}/**/*.py")
        if " Retention(" in path.read_text("utf-8")
    ]
    values = [value for module in modules for value in vars(module).values()]
    by_collection = {value.collection: value for value in values if isinstance(value, Retention)}
    return dict(sorted(by_collection.items()))


def _find_modules(pattern: str) -> list[str]:
    return [_get_module_name(path) for path in sorted(ROOT.glob(pattern))]


def _get_module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)

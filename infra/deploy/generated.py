"""The files that follow from the tools' declarations: the catalogue and the README's table."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT, tools

if TYPE_CHECKING:
    from pathlib import Path

CATALOG: Final = ROOT / "functions" / "gateway" / "catalog.json"
README: Final = ROOT / "README.md"
_TABLE: Final = re.compile(r"(?<=<!-- tools -->\n).*?(?=<!-- /tools -->)", re.DOTALL)


def stale() -> list[Path]:
    """The generated files that do not say what the declarations say."""
    return [path for path in (CATALOG, README) if _present(path) != _wanted(path)]


def write(path: Path) -> None:
    """Bring one generated file up to date."""
    path.write_text(_wanted(path), "utf-8")


def _present(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _wanted(path: Path) -> str:
    return _catalog() if path == CATALOG else _readme()


def _catalog() -> str:
    declarations = [tool.declaration() for tool in tools()]
    return json.dumps(declarations, indent=2, ensure_ascii=False) + "\n"


def _readme() -> str:
    rows = "".join(
        f"| `{tool.name}` | {tool.title} | {tool.effect.value} |"
        f" {', '.join(f'`{name}`' for name in tool.declaration()['inputSchema']['properties'])} |\n"
        for tool in tools()
        if not tool.internal
    )
    table = "| tool | what it does | effect | parameters |\n|---|---|---|---|\n" + rows
    return _TABLE.sub(lambda _: table, README.read_text("utf-8"))

"""The files that follow from declarations: the catalogue, and the tables of the README."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT, jobs, tools

if TYPE_CHECKING:
    from pathlib import Path

    from shared.runtime.job import Job

CATALOG: Final = ROOT / "functions" / "gateway" / "catalog.json"
README: Final = ROOT / "README.md"
_TABLE: Final = r"(?<=<!-- {0} -->\n).*?(?=<!-- /{0} -->)"


def stale() -> list[Path]:
    """The generated files that do not say what the declarations say."""
    return [path for path in (CATALOG, README) if _present(path) != _wanted(path)]


def write(path: Path) -> None:
    """Bring one generated file up to date."""
    path.write_text(_wanted(path), "utf-8")


def _present(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def _wanted(path: Path) -> str:
    if path == CATALOG:
        return _catalog()
    text = path.read_text("utf-8")
    for name, table in {"tools": _tools(), "jobs": _jobs()}.items():
        text = _with_table(name, table, text)
    return text


def _catalog() -> str:
    declarations = [tool.declaration() for tool in tools()]
    return json.dumps(declarations, indent=2, ensure_ascii=False) + "\n"


def _with_table(name: str, table: str, text: str) -> str:
    """The text with the table between the marks of its name."""
    return re.sub(_TABLE.format(name), lambda _: table, text, flags=re.DOTALL)


def _tools() -> str:
    rows = "".join(
        f"| `{tool.name}` | {tool.title} | {tool.effect.value} |"
        f" {', '.join(f'`{name}`' for name in tool.declaration()['inputSchema']['properties'])} |\n"
        for tool in tools()
        if not tool.internal
    )
    return "| tool | what it does | effect | parameters |\n|---|---|---|---|\n" + rows


def _jobs() -> str:
    rows = "".join(f"| `{job.name}` | {job.title} | {_schedule(job)} |\n" for job in jobs())
    return "| job | what it does | in the cloud (cron, UTC) |\n|---|---|---|\n" + rows


def _schedule(job: Job) -> str:
    return f"`{job.schedule}`" if job.schedule else "when asked"

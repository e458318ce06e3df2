"""Generates the gateway's catalogue and the tables in the documents from declarations.

The catalogue is a file with the declarations of all tools, from which the gateway serves
`tools/list` without importing the tools.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import SecretStr

from functions.jobs.ingest.readers.reading import FORMATS
from functions.jobs.ingest.readers.source_file import MEGABYTE
from functions.jobs.purge.job import make_sweeps
from infra.build.discovery import ROOT, get_group_name, jobs, retentions, tools
from infra.mcp_clients import CLIENTS, EXAMPLE_ADDRESS, EXAMPLE_PROGRAM
from shared.core.settings import list_setting_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pydantic.fields import FieldInfo

    from infra.mcp_clients import McpClient, Server
    from shared.runtime.job import Job
    from shared.runtime.tool import Tool

CATALOG: Final = ROOT / "functions" / "gateway" / "catalog.json"
_GROUPS: Final = ("knowledge", "extractions", "traces", "workspaces", "tasks")
"""The order of the groups of tools in the documentation; others follow by name."""

_TYPE_NAMES: Final[Mapping[Any, str]] = MappingProxyType(
    {
        str: "text",
        SecretStr: "text",
        bool: "`true` or `false`",
        int: "whole number",
        float: "number",
        tuple: "JSON list",
        dict: "JSON object",
    }
)
"""The names of setting types in the documentation."""
_BOUNDS: Final = {"gt": "more than", "ge": "at least", "le": "at most"}
"""The words for pydantic's constraints in the documentation."""


def find_stale_files() -> list[Path]:
    """Return the generated files that do not match the declarations."""
    paths = [CATALOG, *_DOCUMENTS]
    return [
        path for path in paths if not path.exists() or path.read_text("utf-8") != _generate(path)
    ]


def write_file(path: Path) -> None:
    """Generate a file and write it."""
    path.write_text(_generate(path), "utf-8")


def _generate(path: Path) -> str:
    """Generate the content of a file. Only the tables of a document change.

    Raises:
        ValueError: A document lacks the pair of comments that encloses a table.
    """
    if path == CATALOG:
        return _render_catalog()
    text = path.read_text("utf-8")
    for name, table in _DOCUMENTS[path].items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)"
        rows = table().replace("\\", r"\\")
        text, count = re.subn(pattern, rows, text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{path} has {count} sections for the table {name!r} instead of one")
    return text


def _render_catalog() -> str:
    declarations = [tool.declaration() | {"group": get_group_name(tool)} for tool in tools()]
    return json.dumps(declarations, indent=2, ensure_ascii=False) + "\n"


def _render_tools_table() -> str:
    rows = (
        f"| `{tool.name}` | {tool.title} | {tool.effect.value} | {_render_parameters(tool)} |\n"
        for tool in sorted(tools(), key=_find_place)
        if not tool.internal
    )
    return "| tool | what it does | effect | parameters |\n|---|---|---|---|\n" + "".join(rows)


def _find_place(tool: Tool[Any, Any]) -> tuple[int, str]:
    group = get_group_name(tool)
    return (_GROUPS.index(group) if group in _GROUPS else len(_GROUPS), group)


def _render_parameters(tool: Tool[Any, Any]) -> str:
    return ", ".join(f"`{name}`" for name in tool.declaration()["inputSchema"]["properties"])


def _render_jobs_table() -> str:
    rows = (f"| `{job.name}` | {job.title} | {_render_schedule(job)} |\n" for job in jobs())
    return "| job | what it does | when (cron, UTC) |\n|---|---|---|\n" + "".join(rows)


def _render_retention_table() -> str:
    swept = {sweep.name for sweep in make_sweeps(materials_days=1)}
    rows = (
        f"| `{name}` | {retention.title} | {retention.period}"
        f" | {'the job `purge`' if name in swept else 'Firestore'} |\n"
        for name, retention in retentions().items()
    )
    return "| collection | what | kept for | deleted by |\n|---|---|---|---|\n" + "".join(rows)


def _render_formats_tables() -> str:
    return "\n".join(
        f"## {file_format.name} ({_quote_all(file_format.extensions)})\n\n"
        f"Files of up to {file_format.max_bytes // MEGABYTE} MB.\n\n"
        "| in the file | becomes |\n|---|---|\n"
        + "".join(f"| {name} | {meaning} |\n" for name, meaning in file_format.fields.items())
        + f"\n```text\n{file_format.example.rstrip()}\n```\n"
        for file_format in FORMATS
    )


def _quote_all(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" if text else "no extension" for text in texts)


def _render_settings_tables() -> str:
    return "\n".join(
        f"## {title}\n\n| name | type | default | meaning |\n|---|---|---|---|\n"
        + "".join(_render_setting_row(name, field) for name, field in group.model_fields.items())
        for title, group in list_setting_groups().items()
    )


def _render_setting_row(name: str, field: FieldInfo) -> str:
    example = f" Example: `{json.dumps(field.examples[0])}`." if field.examples else ""
    cells = (
        f"`{name.upper()}`",
        _describe_type(field),
        _render_default(field),
        f"{field.description}{example}",
    )
    return f"| {' | '.join(cells)} |\n"


def _describe_type(field: FieldInfo) -> str:
    alternatives = get_args(field.annotation)
    kind = alternatives[0] if NoneType in alternatives else field.annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    name = _TYPE_NAMES[get_origin(kind) or kind]
    if "SecretStr" in str(kind):
        name = f"{name}, secret"
    bounds = {
        key: getattr(item, key) for item in field.metadata for key in _BOUNDS if hasattr(item, key)
    }
    clauses = [f"{_BOUNDS[key]} {bound:,}" for key, bound in bounds.items()]
    return ", ".join([name, *clauses])


def _render_default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr) or value in (None, "", (), {}):
        return "none"
    return f"`{json.dumps(value)}`" if isinstance(value, bool) else f"`{value}`"


def _render_schedule(job: Job) -> str:
    return f"`{job.schedule}`" if job.schedule else "on request"


def _render_client_sections() -> str:
    """Render the configuration of each MCP client, which `carrel init` writes."""
    return "\n".join(_render_client_section(client) for client in CLIENTS)


def _render_client_section(client: McpClient) -> str:
    paths = client.paths.values()
    files = " or, on macOS, ".join(f"`~/{path}`" for path in paths)
    text = (
        f"## {client.title}\n\n`carrel init {client.name}` adds this to {files}:\n\n"
        + _render_snippet(client, EXAMPLE_PROGRAM)
    )
    if client.url_field is None:
        return f"{text}\nAn address is entered in its settings: Connectors, Add custom connector.\n"
    return f"{text}\nWith an address:\n\n{_render_snippet(client, EXAMPLE_ADDRESS)}"


def _render_snippet(client: McpClient, server: Server) -> str:
    return f"```{client.language}\n{client.snippet(server)}```\n"


_DOCUMENTS: Final[Mapping[Path, Mapping[str, Callable[[], str]]]] = {
    ROOT / "docs" / "tools.md": {"tools": _render_tools_table},
    ROOT / "docs" / "deploy.md": {"jobs": _render_jobs_table, "retention": _render_retention_table},
    ROOT / "docs" / "adding.md": {"formats": _render_formats_tables},
    ROOT / "docs" / "connect.md": {"clients": _render_client_sections},
    ROOT / "docs" / "configuration.md": {"settings": _render_settings_tables},
}
"""The tables of each document, by the name in the comments that enclose them."""

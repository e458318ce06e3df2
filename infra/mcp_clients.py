"""The configuration of MCP clients: where each keeps it, and what makes Carrel known to it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "carrel"
"""The name of the server in every configuration."""
_NEW_FILE_MODE: Final = 0o600
"""The mode of a new configuration, which may contain a key: only its owner may read it."""


class UnchangedConfiguration(Exception):
    """A configuration stays as it is. The message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How a client reaches Carrel: by a program that it starts, or at an address.

    Attributes:
        program: The path of the `carrel` command.
        url: The address of the MCP endpoint, or an empty string to start the program.
        variables: The environment variables of the program.
    """

    program: str = ""
    url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """A client and the form of its configuration.

    Attributes:
        name: The client's name on the command line.
        title: The client's name for people.
        paths: The path of its file below the home folder, by the name of the operating system as in
            `sys.platform`, with `linux` for all others.
        section: The table that contains the servers.
        url_field: The field for an address, or None if the file can contain only programs.
        has_types: Whether each server names its transport in the field `type`.
        folder: The folder below the home folder that `folder_variable` replaces in the path; "" is
            the home folder itself.
        folder_variable: The environment variable by which users move the client's files.
    """

    name: str
    title: str
    paths: Mapping[str, str]
    section: str = "mcpServers"
    url_field: str | None = "url"
    has_types: bool = False
    folder: str = ""
    folder_variable: str = ""

    def path(self, home: Path, platform: str, environ: Mapping[str, str]) -> Path:
        """Return the path of the configuration file.

        Args:
            home: The user's home folder.
            platform: The name of the operating system, as in `sys.platform`.
            environ: The environment variables. A `folder_variable` with a relative path is ignored,
                as the XDG Base Directory Specification demands for `XDG_CONFIG_HOME`.
        """
        path = Path(self.paths.get(platform, self.paths["linux"]))
        folder = Path(environ.get(self.folder_variable, ""))
        if folder.is_absolute() and path.is_relative_to(self.folder):
            return folder / path.relative_to(self.folder)
        return home / path

    @property
    def language(self) -> str:
        """The language of the file: `json` or `toml`."""
        return "toml" if self.paths["linux"].endswith(".toml") else "json"

    def configuration(self, server: Server) -> dict[str, Any]:
        """Return a configuration that contains Carrel alone.

        Raises:
            UnchangedConfiguration: The file cannot hold an address.
        """
        return {self.section: {NAME: self._entry(server)}}

    def snippet(self, server: Server) -> str:
        """Return the text of that configuration."""
        configuration = self.configuration(server)
        if self.language == "json":
            return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"
        entry = dict(configuration[self.section][NAME])
        variables = entry.pop("env", None)
        text = _format_table(f"{self.section}.{NAME}", entry)
        return text + (
            "\n" + _format_table(f"{self.section}.{NAME}.env", variables) if variables else ""
        )

    def add_server(self, path: Path, server: Server) -> Path | None:
        """Add Carrel to a configuration file.

        Returns:
            The copy of the former file, or None if there was no file.

        Raises:
            UnchangedConfiguration: Carrel is in the file already, or must be added by hand.
            OSError: The file cannot be read or written.
        """
        former = path.read_bytes() if path.exists() else b""
        text = self._merge(former, path, server)
        copy = _copy(path) if path.exists() else None
        _replace(path.resolve(), text)  # what a link points to, as with files kept in a repository
        return copy

    def _entry(self, server: Server) -> dict[str, Any]:
        if server.url and self.url_field is None:
            raise UnchangedConfiguration(
                f"{self.title} takes an address in its settings only: open Settings, Connectors,"
                f" Add custom connector, and enter {server.url}"
            )
        transport = {"type": "http" if server.url else "stdio"} if self.has_types else {}
        if server.url:
            return {**transport, str(self.url_field): server.url}
        variables = {"env": dict(server.variables)} if server.variables else {}
        return {**transport, "command": server.program, "args": ["stdio"], **variables}

    def _merge(self, former: bytes, path: Path, server: Server) -> str:
        """Return the text of a file with Carrel added. Everything else in it stays."""
        snippet = self.snippet(server)
        try:
            former_text = former.decode()
            parsed = _parse(former_text, self.language)
            servers = parsed.setdefault(self.section, {})
            present = servers.get(NAME)
        except (ValueError, AttributeError) as error:
            raise UnchangedConfiguration(
                f"{path} has comments, or is no {self.language.upper()}, and stays as it is. Add"
                f" this to it yourself:\n\n{snippet}"
            ) from error
        entry = self._entry(server)
        if present == entry:
            raise UnchangedConfiguration(f"Carrel is in {path} already.")
        if self.language == "json":
            servers[NAME] = entry
            return json.dumps(parsed, indent=2, ensure_ascii=False) + "\n"
        if present is not None:
            raise UnchangedConfiguration(
                f"{path} has another server named {NAME}, and stays as it is. Replace that server"
                f" yourself by this:\n\n{snippet}"
            )
        return f"{former_text.rstrip()}\n\n{snippet}".lstrip()


def _parse(text: str, language: str) -> dict[str, Any]:
    if language == "toml":
        return tomllib.loads(text)
    parsed: dict[str, Any] = json.loads(text or "{}")
    return parsed


def _format_table(name: str, values: Mapping[str, object]) -> str:
    # Strings and lists of strings look alike in JSON and in TOML.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()]
    return f"[{name}]\n{''.join(lines)}"


def _copy(path: Path) -> Path:
    """Copy a file to the same folder, under a name that no file has."""
    number = 1
    while (copy := path.with_name(f"{path.name}.before-carrel-{number}")).exists():
        number += 1
    shutil.copy2(path, copy)
    return copy


def _replace(path: Path, text: str) -> None:
    """Replace a file in one step, so that a client never reads a part of it. Its mode stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode if path.exists() else _NEW_FILE_MODE
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".carrel-", delete=False
    ) as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
    Path(file.name).replace(path)


_MAC: Final = "Library/Application Support"
CLIENTS: Final = (
    McpClient(
        name="claude-desktop",
        title="Claude Desktop",
        paths={
            "linux": ".config/Claude/claude_desktop_config.json",
            "darwin": f"{_MAC}/Claude/claude_desktop_config.json",
        },
        url_field=None,
        folder=".config",
        folder_variable="XDG_CONFIG_HOME",
    ),
    McpClient(
        name="claude",
        title="Claude Code",
        paths={"linux": ".claude.json"},
        has_types=True,
        folder_variable="CLAUDE_CONFIG_DIR",
    ),
    McpClient(name="cursor", title="Cursor", paths={"linux": ".cursor/mcp.json"}),
    McpClient(
        name="vscode",
        title="VS Code",
        paths={
            "linux": ".config/Code/User/mcp.json",
            "darwin": f"{_MAC}/Code/User/mcp.json",
        },
        section="servers",
        has_types=True,
        folder=".config",
        folder_variable="XDG_CONFIG_HOME",
    ),
    McpClient(
        name="codex",
        title="Codex",
        paths={"linux": ".codex/config.toml"},
        section="mcp_servers",
        folder=".codex",
        folder_variable="CODEX_HOME",
    ),
    McpClient(
        name="gemini",
        title="Gemini CLI",
        paths={"linux": ".gemini/settings.json"},
        url_field="httpUrl",
    ),
)
"""The clients, in the order of the document."""
CLAUDE_DESKTOP: Final = CLIENTS[0]
EXAMPLE_PROGRAM: Final = Server(program="/path/to/carrel/.venv/bin/carrel")
EXAMPLE_ADDRESS: Final = Server(url="http://localhost:8080/mcp")

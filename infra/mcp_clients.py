"""The configuration of MCP clients: where each keeps it, and what makes Carrel known to it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from shared.core.installation import IS_CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "carrel"
"""The name of the server in every configuration."""
_TOOLS: Final = ("--tools", "knowledge")
"""The tools that a client gets unless its user asks for others: a conversation pays for each."""
_NEW_FILE_MODE: Final = 0o600
"""The mode of a new configuration, which may contain a key: only its owner may read it."""


def select_tools(url: str) -> str:
    """Return an address that offers the tools of `_TOOLS`, unless it selects some itself."""
    return url if urlsplit(url).query else f"{url}?tools={_TOOLS[1]}"


def cache_notice() -> str:
    """Return how to install Carrel if it runs from a cache, as with `uvx` and `pipx run`, or "".

    Once the cache is cleared, a client that starts Carrel there no longer finds it.
    """
    # uv and pipx mark their caches, and single environments, by https://bford.info/cachedir.
    prefix = Path(sys.prefix)
    if IS_CHECKOUT or not any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        return ""
    origin = json.loads(distribution("carrel").read_text("direct_url.json") or "{}")
    source = origin.get("url", "carrel")
    if vcs := origin.get("vcs_info"):
        revision = vcs.get("requested_revision")
        source = f"{vcs['vcs']}+{source}" + (f"@{revision}" if revision else "")
    install = "pipx install" if "pipx" in prefix.parts else "uv tool install"
    return (
        "Carrel runs from a cache, where clients no longer find it once the cache is cleared."
        f" Install it first: {install} {shlex.quote(source)}"
    )


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
        return self._write_text("", self.configuration(server))

    def add_server(self, path: Path, server: Server, *, replace: bool = False) -> Path | None:
        """Add Carrel to a configuration file.

        Args:
            path: The file, which may be missing.
            server: How the client reaches Carrel.
            replace: Whether to replace another server of the same name.

        Returns:
            The copy of the former file, or None if there was no file.

        Raises:
            UnchangedConfiguration: Carrel is in the file already, or must be added by hand.
            OSError: The file cannot be read or written.
        """
        former = path.read_bytes() if path.exists() else b""
        text = self._merge(former, path, server, replace=replace)
        return _replace(path, text)

    def _entry(self, server: Server) -> dict[str, Any]:
        if server.url and self.url_field is None:
            raise UnchangedConfiguration(
                f"{self.title} takes an address in its settings only: open Settings, Connectors,"
                f" Add custom connector, and enter {select_tools(server.url)}"
            )
        transport = {"type": "http" if server.url else "stdio"} if self.has_types else {}
        if server.url:
            return {**transport, str(self.url_field): select_tools(server.url)}
        variables = {"env": dict(server.variables)} if server.variables else {}
        return {**transport, "command": server.program, "args": ["stdio", *_TOOLS], **variables}

    def _merge(self, former: bytes, path: Path, server: Server, *, replace: bool) -> str:
        """Return the text of a file with Carrel added. Everything else in it stays."""
        entry = self._entry(server)
        try:
            former_text = former.decode()
            configuration = self._parse(former_text)
            servers = configuration.setdefault(self.section, {})
            present = servers.get(NAME)
        except (ValueError, AttributeError, RecursionError) as error:
            raise UnchangedConfiguration(
                f"{path} has comments, or is no {self.language.upper()}, and stays as it is. Add"
                f" this to it yourself:\n\n{self.snippet(server)}"
            ) from error
        if present == entry:
            raise UnchangedConfiguration(f"Carrel is in {path} already.")
        if present is not None and not replace:
            raise UnchangedConfiguration(
                f"{path} has another server named {NAME}, and stays as it is:"
                f" {_describe(present)}. To replace that server, keeping a copy of the file, run"
                " the command again with --replace."
            )
        servers[NAME] = entry
        from tomlkit.exceptions import TOMLKitError

        try:
            text = self._write_text(former_text, configuration)
            text.encode()
            if self._parse(text) == configuration:
                return text
        except (ValueError, TypeError, AttributeError, TOMLKitError):
            pass  # the layout is one that cannot be edited
        raise UnchangedConfiguration(
            f"{path} cannot be edited without a loss, and stays as it is. Add this to it"
            f" yourself:\n\n{self.snippet(server)}"
        )

    def _parse(self, text: str) -> dict[str, Any]:
        if self.language == "toml":
            return tomllib.loads(text)
        parsed: dict[str, Any] = json.loads(text or "{}", object_pairs_hook=_refuse_duplicates)
        return parsed

    def _write_text(self, former_text: str, configuration: dict[str, Any]) -> str:
        """Return the former text, changed so that it says what the configuration says.

        In TOML, where comments and layout stay, only the entry of Carrel is changed.
        """
        if self.language == "json":
            indent = re.search(r"^[ \t]+(?=\S)", former_text, re.MULTILINE)
            return (
                json.dumps(
                    configuration,
                    indent=indent[0] if indent else 2,
                    ensure_ascii=False,
                    allow_nan=False,
                )
                + "\n"
            )
        import tomlkit  # `carrel up`, which only prints JSON, does without it

        entry = configuration[self.section][NAME]
        inline_entry = tomlkit.inline_table()
        inline_entry.update(entry)
        text = _set_in_toml(former_text, self.section, entry)
        # A table cannot stand among the keys at the top of a file (`mcp_servers.other.url = ...`).
        if tomllib.loads(text) != configuration:
            text = _set_in_toml(former_text, self.section, inline_entry)
        return text


def _set_in_toml(text: str, section: str, entry: Mapping[str, object]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    document.setdefault(section, tomlkit.table(is_super_table=True))[NAME] = entry
    return document.as_string()


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs, and refuse a repeated name, whose value would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is repeated")
    return values


def _describe(entry: object) -> str:
    """Describe a server by its program or host, never by what may contain a key."""
    values = entry if isinstance(entry, dict) else {}
    if program := values.get("command"):
        return f"it starts {program}"
    host = urlsplit(str(values.get("url") or values.get("httpUrl"))).netloc.rpartition("@")[2]
    return f"it is at {host}" if host else "it is not one that this command wrote"


def _replace(path: Path, text: str) -> Path | None:
    """Replace a file in one step, so that a client never reads a part of it. Its mode stays.

    Of a link, as with files kept in a repository, what it points to is replaced. After an error,
    no new file is left.

    Returns:
        The copy of the former file, if there was one, under a name that no file has.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode if target.exists() else _NEW_FILE_MODE
    copy = _choose_copy_path(path) if target.exists() else None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".carrel-") as folder:
        new_file = Path(folder) / target.name
        new_file.write_text(text, "utf-8", newline="")
        new_file.chmod(mode)
        try:
            if copy:
                shutil.copy2(target, copy)
            new_file.replace(target)
        except OSError:
            if copy:
                copy.unlink(missing_ok=True)
            raise
    return copy


def _choose_copy_path(path: Path) -> Path:
    number = 1
    while (copy := path.with_name(f"{path.name}.before-carrel-{number}")).exists():
        number += 1
    return copy


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

"""`carrel init` writes the configuration of an MCP client, as docs/connect.md shows it."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from infra import mcp_clients
from infra.build.discovery import ROOT
from infra.cli.main import main
from infra.mcp_clients import CLIENTS, EXAMPLE_ADDRESS, EXAMPLE_PROGRAM, McpClient

URL: Final = "https://carrel.example.com/mcp"
SELECTED: Final = f"{URL}?tools=knowledge"
PROGRAM_ENTRY: Final = {
    "command": str(Path(sys.prefix) / "bin" / "carrel"),
    "args": ["stdio", "--tools", "knowledge"],
}
OTHER_SERVER: Final = {"command": "other", "args": ["ü"]}
PARSERS: Final = {"json": json.loads, "toml": tomllib.loads}

JSON_CLIENTS: Final = [client for client in CLIENTS if client.language == "json"]
every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
CLIENTS_BY_NAME: Final = {client.name: client for client in CLIENTS}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without clients."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CARREL_STATE", *(client.folder_variable for client in CLIENTS)):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_init(client: McpClient, *options: str) -> Result:
    return CliRunner().invoke(main, ["init", client.name, *options])


def find_file(client: McpClient, home: Path) -> Path:
    return client.path(home, sys.platform, os.environ)


def write_file(name: str, content: str | bytes, home: Path) -> Path:
    file = find_file(CLIENTS_BY_NAME[name], home)
    file.parent.mkdir(parents=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def read_entry(client: McpClient, text: str) -> dict[str, Any]:
    """Return what a configuration says about Carrel, without the name of the transport."""
    entry: dict[str, Any] = PARSERS[client.language](text)[client.section]["carrel"]
    return {key: value for key, value in entry.items() if key != "type"}


@every_client
def test_a_client_is_configured_to_start_carrel(client: McpClient, home: Path) -> None:
    result = run_init(client)
    assert result.exit_code == 0, result.output
    file = find_file(client, home)
    assert read_entry(client, file.read_text("utf-8")) == PROGRAM_ENTRY
    assert str(file) in result.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"Carrel is in {file} already." in run_init(client).output
    assert [path.name for path in file.parent.iterdir() if path.is_file()] == [file.name]


@pytest.mark.parametrize(
    ("folder", "origin", "command"),
    [
        ("uv/archive-v0/x", {"url": "file:///a/b.whl"}, "uv tool install file:///a/b.whl"),
        (
            "pipx/x",
            {
                "url": "https://example.com/carrel",
                "vcs_info": {"vcs": "git", "commit_id": "0", "requested_revision": "v1"},
            },
            "pipx install git+https://example.com/carrel@v1",
        ),
    ],
)
def test_what_runs_from_a_cache_is_to_be_installed_first(
    folder: str, origin: object, command: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "CACHEDIR.TAG").touch()
    package = home / "carrel.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: carrel\nVersion: 1")
    (package / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr("sys.prefix", str(home / folder))
    monkeypatch.setattr(mcp_clients, "IS_CHECKOUT", False)
    cursor = CLIENTS_BY_NAME["cursor"]
    result = run_init(cursor)
    assert result.exit_code == 1
    assert result.output.endswith(f"Install it first: {command}\n")
    assert not find_file(cursor, home).exists()
    assert run_init(cursor, "--url", URL).exit_code == 0


@every_client
def test_the_document_shows_the_configuration_that_is_written(client: McpClient) -> None:
    document = (ROOT / "docs" / "connect.md").read_text("utf-8")
    section = re.split(rf"^## {client.title}$", document, flags=re.MULTILINE)[1].split("\n## ")[0]
    snippets = re.findall(rf"^```{client.language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    servers = [EXAMPLE_PROGRAM, EXAMPLE_ADDRESS] if client.url_field else [EXAMPLE_PROGRAM]
    assert [PARSERS[client.language](snippet) for snippet in snippets] == [
        client.configuration(server) for server in servers
    ]
    assert f"`~/{client.paths['linux']}`" in section


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("claude", {"type": "http", "url": SELECTED}),
        ("cursor", {"url": SELECTED}),
        ("vscode", {"type": "http", "url": SELECTED}),
        ("codex", {"url": SELECTED}),
        ("gemini", {"httpUrl": SELECTED}),
    ],
)
def test_an_address_has_the_form_of_the_client(
    name: str, entry: dict[str, str], home: Path
) -> None:
    client = CLIENTS_BY_NAME[name]
    printed = run_init(client, "--print", "--url", URL).output
    assert printed.startswith(f"{find_file(client, home)}:\n\n")
    assert not list(home.iterdir())
    assert run_init(client, "--url", URL).exit_code == 0
    for text in (find_file(client, home).read_text("utf-8"), printed.partition(":\n\n")[2]):
        assert PARSERS[client.language](text) == {client.section: {"carrel": entry}}


@pytest.mark.parametrize(
    ("name", "url", "exit_code", "message"),
    [
        ("claude-desktop", URL, 1, f"Add custom connector, and enter {SELECTED}"),
        ("cursor", "localhost:8080/mcp", 2, "is not an address such as http://localhost:8080/mcp"),
    ],
)
def test_an_address_that_no_file_can_have_is_refused(
    name: str, url: str, exit_code: int, message: str, home: Path
) -> None:
    result = run_init(CLIENTS_BY_NAME[name], "--url", url)
    assert result.exit_code == exit_code
    assert message in result.output
    assert not list(home.iterdir())


@pytest.mark.parametrize("client", JSON_CLIENTS, ids=lambda client: client.name)
def test_the_other_content_of_a_file_stays_and_is_copied(client: McpClient, home: Path) -> None:
    file = find_file(client, home)
    file.parent.mkdir(parents=True, exist_ok=True)
    original_text = json.dumps({"theme": "dark", client.section: {"other": OTHER_SERVER}})
    file.write_text(original_text, "utf-8")
    file.chmod(0o640)
    first_copy = file.with_name(f"{file.name}.before-carrel-1")
    second_copy = file.with_name(f"{file.name}.before-carrel-2")

    if client.url_field:  # the client takes addresses, so a second run changes the file again
        run_init(client, "--url", URL)
        text_with_address = file.read_text("utf-8")
        result = run_init(client, "--replace")
        assert str(second_copy) in result.output
        assert second_copy.read_text("utf-8") == text_with_address
    else:
        run_init(client)

    configuration = json.loads(file.read_text("utf-8"))
    assert configuration["theme"] == "dark"
    assert configuration[client.section]["other"] == OTHER_SERVER
    assert read_entry(client, file.read_text("utf-8")) == PROGRAM_ENTRY
    assert file.stat().st_mode & 0o777 == 0o640
    assert first_copy.read_text("utf-8") == original_text


def test_the_text_of_a_toml_file_stays(home: Path) -> None:
    original_text = "# mine\nmodel = 'x'\n\n[mcp_servers.other]\ncommand = 'ü'\n"
    file = write_file("codex", original_text, home)
    assert run_init(CLIENTS_BY_NAME["codex"]).exit_code == 0
    assert file.read_text("utf-8").startswith(original_text)
    assert read_entry(CLIENTS_BY_NAME["codex"], file.read_text("utf-8")) == PROGRAM_ENTRY
    assert tomllib.loads(file.read_text("utf-8"))["mcp_servers"]["other"] == {"command": "ü"}
    assert file.with_name("config.toml.before-carrel-1").read_text("utf-8") == original_text


NO_JSON: Final = "has comments, or is no JSON"
NO_TOML: Final = "has comments, or is no TOML"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("vscode", '{\n  // mine\n  "servers": {}\n}', NO_JSON),
        ("cursor", "[]", NO_JSON),
        ("gemini", '{"mcpServers": "none"}', NO_JSON),
        ("cursor", "é".encode("latin-1"), NO_JSON),
        ("codex", "model = ", NO_TOML),
        ("cursor", '{"mcpServers": {}, "mcpServers": {"other": {}}}', NO_JSON),
        ("cursor", '{"theme": "\\ud800", "size": 1e400}', "cannot be edited without a loss"),
        ("codex", "[[mcp_servers]]\nname = 'x'\n", NO_TOML),
    ],
)
def test_an_unchangeable_file_stays_and_the_entry_is_printed(
    name: str, text: str | bytes, reason: str, home: Path
) -> None:
    client = CLIENTS_BY_NAME[name]
    file = write_file(name, text, home)
    content = file.read_bytes()
    result = run_init(client)

    assert result.exit_code == 1
    sentence = f"{file} {reason}, and stays as it is. Add this to it yourself:"
    assert sentence in result.output
    assert str(PROGRAM_ENTRY["command"]) in result.output
    assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


TOML_LAYOUTS: Final = {
    "an empty file": "",
    "an inline table": "mcp_servers = { other = { command = 'x' } } # mine\n[z]\na = 1\n",
    "an empty inline table": "mcp_servers = {}\nmodel = 'x'",
    "dotted keys at the top": "# mine\nmcp_servers.other.command = 'x'\nmodel = 'x'\n[z]\na = 1\n",
    "dotted keys in the table": "[mcp_servers]\nother.command = 'x' # mine\n[z]\na = 1\n",
    "a table without servers": "[mcp_servers]\n# mine\n\n[z]\na = 1\n",
    "a table of a table": "[mcp_servers.other]\ncommand = 'x'\n[mcp_servers.other.env]\nA = '1'\n",
    "tables in two places": "[mcp_servers.a]\nurl = 'x'\n[z]\na = 1\n[mcp_servers.b]\nurl = 'y'\n",
    "an array of tables": "[[z]]\na = 1\n[[z]]\na = 2",
    "quoted names": "['mcp_servers'.\"other one\"]\ncommand = 'x'\n",
    "lines of Windows": "a = 1\r\n[mcp_servers.b]\r\ncommand = 'y'\r\n",
}


@pytest.mark.parametrize("layout", TOML_LAYOUTS)
def test_carrel_is_added_to_toml_of_every_layout(layout: str, home: Path) -> None:
    file = write_file("codex", TOML_LAYOUTS[layout].encode(), home)
    result = run_init(CLIENTS_BY_NAME["codex"])
    assert result.exit_code == 0, result.output
    configuration = tomllib.loads(TOML_LAYOUTS[layout])
    configuration.setdefault("mcp_servers", {})["carrel"] = PROGRAM_ENTRY
    assert tomllib.loads(file.read_bytes().decode()) == configuration
    assert file.read_text("utf-8").count("# mine") == TOML_LAYOUTS[layout].count("# mine")


@pytest.mark.parametrize(
    ("name", "text", "description"),
    [
        ("cursor", '{"mcpServers": {"carrel": {"command": "theirs"}}}', "it starts theirs"),
        ("gemini", '{"mcpServers": {"carrel": {"httpUrl": "https://k@a.b/?t=k"}}}', "it is at a.b"),
        ("vscode", '{"servers": {"carrel": []}}', "it is not one that this command wrote"),
        ("codex", "[mcp_servers.carrel]\nurl = 'http://a.b/c'\n[z]\na = 1\n", "it is at a.b"),
        ("codex", "mcp_servers.carrel.command = 'theirs'\nb = 2\n", "it starts theirs"),
        ("codex", "mcp_servers = { carrel = { command = 'theirs' } }\n", "it starts theirs"),
    ],
)
def test_another_server_of_the_name_is_replaced_on_request_only(
    name: str, text: str, description: str, home: Path
) -> None:
    client = CLIENTS_BY_NAME[name]
    file = write_file(name, text, home)
    result = run_init(client)
    assert result.exit_code == 1
    assert f"another server named carrel, and stays as it is: {description}." in result.output
    assert [path.read_text("utf-8") for path in file.parent.iterdir()] == [text]

    assert run_init(client, "--replace").exit_code == 0
    assert read_entry(client, file.read_text("utf-8")) == PROGRAM_ENTRY
    assert file.with_name(f"{file.name}.before-carrel-1").read_text("utf-8") == text


@pytest.mark.parametrize("indent", ["\t", "    "])
def test_json_keeps_its_indentation(indent: str, home: Path) -> None:
    file = write_file("cursor", f'{{\n{indent}"theme": "dark"\n}}\n', home)
    run_init(CLIENTS_BY_NAME["cursor"])
    assert file.read_text("utf-8").startswith(f'{{\n{indent}"theme": "dark",\n{indent}"mcp')


def test_no_file_stays_after_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target), None, str(path))

    file = write_file("cursor", "{}", home)
    monkeypatch.setattr(Path, "replace", fail)
    result = run_init(CLIENTS_BY_NAME["cursor"])
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert list(file.parent.iterdir()) == [file]
    assert file.read_text() == "{}"


@pytest.mark.parametrize("name", ["cursor", "codex"])
def test_another_state_folder_is_passed_on(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_STATE", '/data/"my" Carrel')
    client = CLIENTS_BY_NAME[name]
    run_init(client)
    entry = read_entry(client, find_file(client, home).read_text("utf-8"))
    assert entry["env"].keys() == {"CARREL_STATE"}


def test_a_linked_configuration_file_stays_a_link(home: Path) -> None:
    (home / ".cursor").mkdir()
    file = home / "dotfiles.json"
    file.write_text("{}")
    (home / ".cursor" / "mcp.json").symlink_to(file)
    run_init(CLIENTS_BY_NAME["cursor"])
    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert read_entry(CLIENTS_BY_NAME["cursor"], file.read_text()) == PROGRAM_ENTRY


@pytest.mark.parametrize("name", ["claude-desktop", "vscode"])
def test_the_file_of_a_mac_is_in_its_library(name: str, home: Path) -> None:
    for environment in ({}, {"XDG_CONFIG_HOME": "/moved"}):
        path = CLIENTS_BY_NAME[name].path(home, "darwin", environment)
        assert path.is_relative_to(home / "Library" / "Application Support")


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("codex", "CODEX_HOME", "config.toml"),
    ],
)
def test_a_client_whose_files_were_moved_is_found(
    name: str, variable: str, file: str, home: Path
) -> None:
    client = CLIENTS_BY_NAME[name]
    folder = home / "moved"
    assert client.path(home, "linux", {variable: str(folder)}) == folder / file
    for ignored_value in ("", "relative", "~/unexpanded"):
        path = client.path(home, "linux", {variable: ignored_value})
        assert path == client.path(home, "linux", {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_access_is_named(home: Path) -> None:
    home.chmod(0o500)
    result = run_init(CLIENTS_BY_NAME["claude"])
    assert result.exit_code == 1
    assert "carrel init claude --print" in result.output


def test_the_plugin_is_for_claude_code_alone() -> None:
    result = run_init(CLIENTS_BY_NAME["cursor"], "--plugin")
    assert result.exit_code == 2
    assert "carrel init claude --plugin" in result.output


def test_without_claude_the_commands_of_the_plugin_are_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = run_init(CLIENTS_BY_NAME["claude"], "--plugin")
    assert result.exit_code == 1
    folder = re.search(r"claude plugin marketplace add (.+)", result.output)
    assert folder
    assert (Path(folder[1]) / ".claude-plugin" / "marketplace.json").is_file()
    assert not list(home.iterdir())


def test_a_plugin_hides_no_refusal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    find_file(CLIENTS_BY_NAME["claude"], home).write_text("{} // mine")
    result = run_init(CLIENTS_BY_NAME["claude"], "--plugin")
    assert result.exit_code == 1
    assert "stays as it is" in result.output

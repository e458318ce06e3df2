"""`server.json` describes Carrel to the MCP Registry and its clients.

`mcp_server.schema.json` is the registry's own, of 2025-12-11, as
https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json serves it.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # mcp brings it, without types
import pytest

from infra.build.discovery import ROOT

SCHEMA: Final = Path(__file__).with_name("mcp_server.schema.json")
METADATA_KEY: Final = "io.modelcontextprotocol.registry/publisher-provided"
"""The registry keeps the metadata under this key only, and at most `MAX_METADATA_BYTES`."""
MAX_METADATA_BYTES: Final = 4096


def load_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


@pytest.fixture
def server() -> dict[str, Any]:
    """The content of `server.json`."""
    return load_json(ROOT / "server.json")


@pytest.fixture
def project() -> dict[str, Any]:
    """The project table of `pyproject.toml`."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def test_server_json_matches_the_registry_schema(server: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(load_json(SCHEMA)).validate(server)


def test_server_json_names_its_schema(server: dict[str, Any]) -> None:
    assert server["$schema"] == load_json(SCHEMA)["$id"]


def test_server_json_agrees_with_pyproject(server: dict[str, Any], project: dict[str, Any]) -> None:
    assert server["name"].rpartition("/")[2] == project["name"]
    assert server["version"] == project["version"]
    assert server["description"] == project["description"]


def test_the_url_is_valid_when_its_variables_are_filled_in(server: dict[str, Any]) -> None:
    [remote] = server["remotes"]
    assert remote["variables"].keys() == set(re.findall(r"{(\w+)}", remote["url"]))
    assert all(variable["isRequired"] for variable in remote["variables"].values())
    url = remote["url"].format(host=remote["variables"]["host"]["placeholder"])
    assert re.fullmatch(r"https://[a-z0-9.-]+/mcp", url)


def test_server_json_lists_no_package(server: dict[str, Any]) -> None:
    assert "packages" not in server


def test_the_api_key_is_optional_and_secret(server: dict[str, Any]) -> None:
    [remote] = server["remotes"]
    [header] = remote["headers"]
    assert header["name"] == "X-API-Key"
    assert header["isRequired"] is False
    assert header["isSecret"] is True


def test_metadata_is_within_the_limit(server: dict[str, Any]) -> None:
    assert list(server["_meta"]) == [METADATA_KEY]
    assert len(json.dumps(server["_meta"][METADATA_KEY])) <= MAX_METADATA_BYTES

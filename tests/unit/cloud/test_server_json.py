"""`server.json` describes Carrel to the MCP Registry and its clients.

`mcp_server.schema.json` is the registry's own, of 2025-12-11, as
https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json serves it.
"""

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
    return load_json(ROOT / "server.json")


def test_server_json_follows_its_schema_and_pyproject(server: dict[str, Any]) -> None:
    schema = load_json(SCHEMA)
    jsonschema.Draft7Validator(schema).validate(server)
    assert server["$schema"] == schema["$id"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert server["name"].rpartition("/")[2] == project["name"]
    assert server["version"] == project["version"]
    assert server["description"] == project["description"]
    assert "packages" not in server
    assert list(server["_meta"]) == [METADATA_KEY]
    assert len(json.dumps(server["_meta"][METADATA_KEY])) <= MAX_METADATA_BYTES


def test_the_remote_has_a_valid_url_and_an_optional_secret_key(server: dict[str, Any]) -> None:
    [remote] = server["remotes"]
    assert remote["variables"].keys() == set(re.findall(r"{(\w+)}", remote["url"]))
    assert all(variable["isRequired"] for variable in remote["variables"].values())
    url = remote["url"].format(host=remote["variables"]["host"]["placeholder"])
    assert re.fullmatch(r"https://[a-z0-9.-]+/mcp", url)
    [header] = remote["headers"]
    assert (header["name"], header["isRequired"], header["isSecret"]) == ("X-API-Key", False, True)

"""The official TypeScript clients, which most applications that speak MCP are built on."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from infra.deploy.discovery import ROOT
from tests.knowledge import BAKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.running import Running

PACKAGE = ROOT / "tests" / "e2e" / "typescript"
INSTALL_SECONDS, TALK_SECONDS = 120, 30


@pytest.fixture(scope="module")
def talk() -> Path:
    """The script that talks to Carrel, beside the packages it imports.

    They are installed once per lock file, into the folder that local runs leave things in.
    """
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node.js and npm are not installed")
    lock = (PACKAGE / "package-lock.json").read_bytes()
    folder = ROOT / ".carrel" / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.mjs"):
        shutil.copy(PACKAGE / name, folder)
    done = folder / "installed"
    if not done.exists():
        _install(folder)
        done.touch()
    return folder / "client.mjs"


def _install(folder: Path) -> None:
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm cannot install the TypeScript clients: {error}")


@pytest.mark.parametrize("client", ["2026-07-28", "auto", "v1"])
def test_a_typescript_client_lists_searches_reads_and_sees_errors(
    talk: Path, carrel: Running, client: str
) -> None:
    command = ["node", str(talk), carrel.endpoint, client]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TALK_SECONDS, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    heard: dict[str, Any] = json.loads(done.stdout)
    schemas = {tool["name"]: tool["outputSchema"] for tool in heard["tools"]}
    assert ["get_chunk", "search_kb"] == list(schemas)
    jsonschema.validate(heard["search"]["structuredContent"], schemas["search_kb"])
    jsonschema.validate(heard["chunk"]["structuredContent"], schemas["get_chunk"])
    assert BAKING.sections[1].text == heard["chunk"]["structuredContent"]["content"]
    assert heard["chunk"]["_meta"]["carrel/receipt"]["round_trips"] == 2
    assert heard["failure"]["isError"] is True
    assert "VALIDATION_ERROR" in heard["failure"]["content"][0]["text"]

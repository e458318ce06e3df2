"""The official TypeScript clients, which most applications that speak MCP are built on."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from infra.deploy.discovery import ROOT
from tests.e2e.wire import TOOL_NAMES, assert_fits
from tests.knowledge import BAKING

if TYPE_CHECKING:
    from tests.e2e.running import Running

PACKAGE = ROOT / "tests" / "e2e" / "typescript"
INSTALL_SECONDS, TALK_SECONDS = 120, 30


@pytest.fixture(scope="module")
def installed() -> Path:
    """The folder where the clients are installed: once per lock file, beside local runs' state."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node.js and npm are not installed")
    lock = (PACKAGE / "package-lock.json").read_bytes()
    folder = ROOT / ".carrel" / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists():
        _install(folder)
    return folder


def _install(folder: Path) -> None:
    """Install elsewhere first: another worker may be doing the same, or this one be stopped."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as name:
        made = shutil.copytree(PACKAGE, Path(name) / "made")
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            subprocess.run(
                command, cwd=made, check=True, capture_output=True, timeout=INSTALL_SECONDS
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm cannot install the TypeScript clients: {error}")
        with suppress(OSError):  # the other worker was faster
            made.rename(folder)


@pytest.mark.parametrize("client", ["2026-07-28", "auto", "v1"])
def test_a_typescript_client_lists_searches_reads_and_sees_errors(
    installed: Path, carrel: Running, client: str
) -> None:
    done = subprocess.run(
        ["node", "--input-type=module", "-", carrel.endpoint, client],
        input=(PACKAGE / "client.mjs").read_text("utf-8"),
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=TALK_SECONDS,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    heard: dict[str, Any] = json.loads(done.stdout)
    schemas = {tool["name"]: tool["outputSchema"] for tool in heard["tools"]}
    assert TOOL_NAMES == list(schemas)
    assert_fits(heard["search"]["structuredContent"], schemas["search_kb"])
    assert_fits(heard["chunk"]["structuredContent"], schemas["get_chunk"])
    assert BAKING.sections[1].text == heard["chunk"]["structuredContent"]["content"]
    assert heard["chunk"]["_meta"]["carrel/receipt"]["round_trips"] == 2
    assert heard["failure"]["isError"] is True
    assert "VALIDATION_ERROR" in heard["failure"]["content"][0]["text"]

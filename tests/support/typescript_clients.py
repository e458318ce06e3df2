"""The official TypeScript clients, which most applications that speak MCP are built on."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from infra.build.discovery import ROOT
from tests.support.npm import NotInstalled, installed

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE: Final = ROOT / "tests" / "support" / "typescript"
SECONDS: Final = 60


def talk(script: str, endpoint: str, client: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run one of the scripts with one of the clients, and return what it printed.

    The test is skipped where the clients cannot be installed.
    """
    try:
        folder = installed(PACKAGE)
    except NotInstalled as error:
        pytest.skip(str(error))
    done = subprocess.run(
        ["node", "--input-type=module", "-", endpoint, client],
        input=(PACKAGE / script).read_text("utf-8"),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr), done.stderr
    heard: dict[str, Any] = json.loads(done.stdout)
    return heard

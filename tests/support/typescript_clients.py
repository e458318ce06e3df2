"""Runs scripts with the official TypeScript clients, on which most MCP applications are built."""

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any, Final

import pytest

from infra.build.discovery import ROOT
from tests.support.npm import NotInstalled, install_packages

PACKAGE: Final = ROOT / "tests" / "support" / "typescript"
"""The folder with the scripts, and the lock file of the clients."""
TIMEOUT_SECONDS: Final = 60
"""The time limit of a script."""


def run_client(
    script: str, endpoint: str, client: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Run a script with a client, and return the JSON that it prints.

    The test is skipped if the clients cannot be installed.

    Args:
        script: The file name of the script.
        endpoint: The URL of the MCP endpoint.
        client: The name of the client, which the script gets as an argument.
        environment: Variables to add to this process's own.
    """
    try:
        folder = install_packages(PACKAGE)
    except NotInstalled as error:
        pytest.skip(str(error))
    process = subprocess.run(
        ["node", "--input-type=module", "-", endpoint, client],
        input=(PACKAGE / script).read_text("utf-8"),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == "", process.stderr
    output: dict[str, Any] = json.loads(process.stdout)
    return output

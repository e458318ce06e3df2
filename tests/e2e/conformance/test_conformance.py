"""The gateway passes the public conformance suite of the protocol.

The suite knows which scenarios a revision of the protocol has. In addition to the checks of a
scenario, it checks each message of the server against the JSON schema of the revision.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateway_process import RunningGateway, run_gateway
from tests.support.npm import NotInstalled, install_packages

pytestmark = pytest.mark.slow

PACKAGE: Final = Path(__file__).parent
SCENARIO_SECONDS: Final = 60
"""The time limit of a scenario. The suite itself gives up after 30 s."""
REVISIONS: Final = ("2025-11-25", "2026-07-28")
"""The last revision with a handshake, and the stateless revision."""
SCENARIOS: Final = {
    "server-initialize": "inline",
    "server-stateless": "suite_gateway",
    "ping": "inline",
    "tools-list": "inline",
    "resources-list": "inline",
    "sep-2164-resource-not-found": "inline",
    "prompts-list": "inline",
    "completion-complete": "suite_gateway",
    "caching": "inline",
    "http-header-validation": "inline",
    "dns-rebinding-protection": "inline",
}
"""The scenarios, each with the gateway that has the tools and prompts that it uses."""


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The command of the suite, installed from npm. Skip the test if it cannot be installed."""
    try:
        programs = install_packages(PACKAGE) / "node_modules" / ".bin"
    except NotInstalled as error:
        pytest.skip(str(error))
    # The suite needs Node 22 or newer; a machine's own is often older.
    if not (programs / "node").exists():
        pytest.skip("npm has no Node 22 for this machine.")
    return [str(programs / "node"), str(programs / "conformance"), "server"]


@pytest.fixture(scope="module")
def suite_gateway(log: Path) -> Iterator[RunningGateway]:
    """The gateway with the tools and the prompt of the suite."""
    with run_gateway(PACKAGE / "gateway_main.py", {}, log) as gateway:
        yield gateway


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_gateway_passes(
    command: list[str],
    request: pytest.FixtureRequest,
    scenario: str,
    revision: str,
    tmp_path: Path,
) -> None:
    gateway: RunningGateway = request.getfixturevalue(SCENARIOS[scenario])
    arguments = ["--url", gateway.endpoint, "--scenario", scenario, "--spec-version", revision]
    process = subprocess.run(
        [*command, *arguments, "--output-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SCENARIO_SECONDS,
        check=False,
    )
    checks = [
        check for path in tmp_path.rglob("checks.json") for check in json.loads(path.read_bytes())
    ]
    if not checks and (
        reason := re.search(r"^SKIPPED: scenario .*? \((.*)\)\. Use", process.stdout, re.MULTILINE)
    ):
        pytest.skip(reason[1])
    faults = [f"{check['id']}: {check.get('errorMessage')}" for check in checks if is_fault(check)]
    assert faults == []
    assert process.returncode == 0, process.stdout + process.stderr
    assert any(check["status"] == "SUCCESS" for check in checks), process.stdout


def is_fault(check: dict[str, Any]) -> bool:
    """Return whether a check failed, be it an unmet SHOULD, or could not run."""
    could_not_run = check["status"] == "SKIPPED" and "errorMessage" in check
    return could_not_run or check["status"] in {"FAILURE", "WARNING"}

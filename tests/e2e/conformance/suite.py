"""The public MCP conformance suite.

The suite knows which scenarios a revision of the protocol has. In addition to the checks of a
scenario, it checks each message of the server against the JSON schema of the revision.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from tests.support.npm import NotInstalled, install_packages

PACKAGE: Final = Path(__file__).parent
SCENARIO_SECONDS: Final = 60
"""The time limit of a scenario. The suite itself gives up after 30 s."""
_NOT_APPLICABLE: Final = re.compile(r"^SKIPPED: scenario .*? \((.*)\)\. Use --force", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario ended.

    Attributes:
        verdict: The result. A scenario that the revision does not have is not applicable.
        note: The number of checks, or the reason why there were none.
        faults: The failed checks. They include an unmet SHOULD, which the suite only warns of, and
            checks that could not run.
    """

    verdict: Literal["pass", "fail", "not applicable"]
    note: str
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the verdict and the note, as short as a table cell."""
        return f"{self.verdict} ({self.note})"


class Suite:
    """The installed suite."""

    def __init__(self) -> None:
        """Install the suite, unless it is installed.

        Raises:
            NotInstalled: The suite cannot run on this machine.
        """
        programs = install_packages(PACKAGE) / "node_modules" / ".bin"
        # The suite needs Node 22 or newer; a machine's own is often older.
        if not (programs / "node").exists():
            raise NotInstalled("npm has no Node 22 for this machine.")
        self._command = [str(programs / "node"), str(programs / "conformance"), "server"]

    def run(self, scenario: str, revision: str, endpoint: str) -> Outcome:
        """Run a scenario at a revision of the protocol against the server at `endpoint`."""
        arguments = ["--url", endpoint, "--scenario", scenario, "--spec-version", revision]
        with TemporaryDirectory() as folder:
            process = subprocess.run(
                [*self._command, *arguments, "--output-dir", folder],
                capture_output=True,
                text=True,
                timeout=SCENARIO_SECONDS,
                check=False,
            )
            check_files = list(Path(folder).rglob("checks.json"))
            checks = [check for path in check_files for check in json.loads(path.read_bytes())]
        if not checks and (reason := _NOT_APPLICABLE.search(process.stdout)):
            return Outcome("not applicable", reason[1])
        return _make_outcome(checks, process)


def _make_outcome(
    checks: Sequence[dict[str, Any]], process: subprocess.CompletedProcess[str]
) -> Outcome:
    counts = Counter(check["status"] for check in checks)
    faults = [
        f"{check['id']}: {check.get('errorMessage') or check['description']}"
        for check in checks
        if _is_fault(check)
    ]
    if not counts["SUCCESS"] or (process.returncode and not faults):
        output = f"{process.stdout}{process.stderr}"[-2000:]
        faults.append(
            f"The suite checked nothing and ended with code {process.returncode}:\n{output}"
        )
    if faults:
        return Outcome("fail", f"faults: {len(faults)}", tuple(faults))
    skipped = f", {counts['SKIPPED']} skipped" if counts["SKIPPED"] else ""
    return Outcome("pass", f"{counts['SUCCESS']} checks{skipped}")


def _is_fault(check: dict[str, Any]) -> bool:
    """Return whether a check failed. A check that does not concern the server is not a fault."""
    could_not_run = check["status"] == "SKIPPED" and "errorMessage" in check
    return could_not_run or check["status"] in {"FAILURE", "WARNING"}

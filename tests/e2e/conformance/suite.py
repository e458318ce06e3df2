"""The public MCP conformance suite: runs one scenario against a server, and reads what it found.

The suite knows which scenarios a revision of the protocol has; beside what a scenario checks, each
message that the server sends is checked against that revision's JSON schema.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.support.npm import NotInstalled, installed

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE: Final = Path(__file__).parent
SCENARIO_SECONDS: Final = 60
"""How long a scenario may take; the suite itself gives up after 30 s."""
_NOT_APPLICABLE: Final = re.compile(r"^SKIPPED: scenario .*? \((.*)\)\. Use --force", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario ended.

    Attributes:
        verdict: A scenario that its revision does not have is not applicable.
        note: How many checks there were, or why there were none.
        faults: What failed. Here that includes an unmet SHOULD, which is but a warning to the
            suite, and what could not be tried.
    """

    verdict: Literal["pass", "fail", "not applicable"]
    note: str
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Verdict and note, in the few words of a table's cell."""
        return f"{self.verdict} ({self.note})"


class Suite:
    """The suite, installed."""

    def __init__(self) -> None:
        """Install it, unless that was done before.

        Raises:
            NotInstalled: It cannot run on this machine.
        """
        programs = installed(PACKAGE) / "node_modules" / ".bin"
        # The suite needs Node 22 or newer; a machine's own is often older.
        if not (programs / "node").exists():
            raise NotInstalled("npm has no Node 22 for this machine.")
        self._command = [str(programs / "node"), str(programs / "conformance"), "server"]

    def run(self, scenario: str, revision: str, endpoint: str) -> Outcome:
        """Run a scenario at a revision of the protocol against the server at `endpoint`."""
        asked = ["--url", endpoint, "--scenario", scenario, "--spec-version", revision]
        with TemporaryDirectory() as results:
            done = subprocess.run(
                [*self._command, *asked, "--output-dir", results],
                capture_output=True,
                text=True,
                timeout=SCENARIO_SECONDS,
                check=False,
            )
            written = list(Path(results).rglob("checks.json"))
            checks = [check for path in written for check in json.loads(path.read_bytes())]
        if not checks and (reason := _NOT_APPLICABLE.search(done.stdout)):
            return Outcome("not applicable", reason[1])
        return _judged(checks, done)


def _judged(checks: Sequence[dict[str, Any]], done: subprocess.CompletedProcess[str]) -> Outcome:
    counts = Counter(check["status"] for check in checks)
    faults = [
        f"{check['id']}: {check.get('errorMessage') or check['description']}"
        for check in checks
        if _is_fault(check)
    ]
    if not counts["SUCCESS"] or (done.returncode and not faults):
        output = f"{done.stdout}{done.stderr}"[-2000:]
        faults.append(f"Nothing was found out; the suite ended with {done.returncode}:\n{output}")
    if faults:
        return Outcome("fail", f"faults: {len(faults)}", tuple(faults))
    skipped = f", {counts['SKIPPED']} skipped" if counts["SKIPPED"] else ""
    return Outcome("pass", f"{counts['SUCCESS']} checks{skipped}")


def _is_fault(check: dict[str, Any]) -> bool:
    """A check skipped because it does not concern the server has a note and no error."""
    could_not_be_tried = check["status"] == "SKIPPED" and "errorMessage" in check
    return could_not_be_tried or check["status"] in {"FAILURE", "WARNING"}

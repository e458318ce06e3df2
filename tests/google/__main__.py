"""Runs Google's system tests of its Python client on the embedded Firestore.

Usage: python -m tests.google CHECKOUT [--emulator] [ARGUMENTS of pytest]

CHECKOUT is a clone of googleapis/python-firestore with `tests/system`. Its tests need other
versions of pytest than Carrel's, so uv runs them in an environment of their own. With `--emulator`,
they run on Google's emulator for comparison, all calls included.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

from tests.support.embedded_database import serve_any_index
from tests.support.emulator import run_emulator

PACKAGES: Final = (
    "google-cloud-firestore",
    "google-cloud-testutils",
    "mock",
    "numpy",
    "pytest-asyncio==0.21.2",
    "pytest<8",
    "pyyaml",
    "six",
)
FILES: Final = ("test_system.py", "test_system_async.py")
_PLUGIN: Final = Path(__file__).with_name("plugin.py")


def main(checkout: Path, arguments: list[str]) -> int:
    """Run the tests, and return pytest's exit code."""
    is_embedded = "--emulator" not in arguments
    options = [argument for argument in arguments if argument != "--emulator"]
    with serve_any_index() if is_embedded else run_emulator() as address:
        environment = os.environ | {
            "FIRESTORE_EMULATOR_HOST": address,
            "GCLOUD_PROJECT": f"google-{uuid.uuid4().hex[:8]}",
            "PYTHONPATH": str(_PLUGIN.parent),
            "ONLY_EMBEDDED": "1" if is_embedded else "",
        }
        packages = [part for package in PACKAGES for part in ("--with", package)]
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "run", "--no-project", *packages, "python", "-m", "pytest", "-p", "plugin"]
        quiet = ["-q", "--tb=short", "-rfE", "-W", "ignore", "-p", "no:cacheprovider"]
        folder = checkout / "tests" / "system"
        return subprocess.run(
            [*command, *quiet, *(options or FILES)], cwd=folder, env=environment, check=False
        ).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

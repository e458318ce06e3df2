"""Local runs share a secret, which is created once and which only this user can read."""

import subprocess
import sys
from pathlib import Path

from infra.build.discovery import ROOT
from infra.local.local_database import load_local_secret
from shared.core.setting_groups import MIN_SECRET_LENGTH

PRINT_SECRET_AFTER_A_LINE = """
import sys
from pathlib import Path
from infra.local.local_database import load_local_secret
sys.stdin.readline()
print(load_local_secret(Path(sys.argv[1])))
"""


def test_the_secret_is_created_once_long_enough_and_private(tmp_path: Path) -> None:
    secret = load_local_secret(tmp_path / "state")
    assert load_local_secret(tmp_path / "state") == secret
    assert len(secret) >= MIN_SECRET_LENGTH
    assert secret != load_local_secret(tmp_path / "other")
    [path] = (tmp_path / "state").iterdir()
    assert path.name == "secret"
    assert path.stat().st_mode & 0o777 == 0o600


def test_concurrent_processes_get_the_same_secret(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PRINT_SECRET_AFTER_A_LINE, str(tmp_path / "state")]
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in processes:  # each reads a line first, so that all load the secret together
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    secrets = {process.communicate(timeout=60)[0] for process in processes}
    assert secrets == {load_local_secret(tmp_path / "state") + "\n"}

"""Deploys in a process that kills itself when it prints a given text."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from infra.cloud.plan import FULL_DEPLOY, run_steps
from tests.support.deploying_checkout import Checkout


def _main(folder: str, project: str, google: str, kill_line: str) -> None:
    def echo(text: str) -> None:
        sys.stdout.write(text + "\n")
        if kill_line and kill_line in text:
            os.kill(os.getpid(), signal.SIGKILL)

    run_steps(Checkout(Path(folder), project, google).make_cloud(echo), FULL_DEPLOY)


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))

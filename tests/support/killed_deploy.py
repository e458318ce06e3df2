"""A program that deploys a checkout, and kills itself when it prints a given text.

Its argument is a JSON list: the folder of the checkout, the project, the URL of the fake Secret
Manager, and the text.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from infra.cloud.release import deploy
from tests.support.deploying_checkout import Checkout


def _main(folder: str, project: str, google: str, fatal_text: str) -> None:
    def echo(text: str) -> None:
        sys.stdout.write(text + "\n")
        if fatal_text and fatal_text in text:
            os.kill(os.getpid(), signal.SIGKILL)

    deploy(Checkout(Path(folder), project, google).make_cloud(echo))


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))

"""Runs `carrel ingest URL` in a process that treats a local web server as a public one."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from infra.build.discovery import ROOT
from tests.support.public_web_server import PublicWebServer

_PROGRAM: Final = """
import sys
from functools import partial
from infra.cli.main import main
from infra.local import jobs
from functions.jobs.ingest.links.page import FETCH_RULES
from shared.core.safe_fetch import Endpoint, SafeFetch
from tests.support.public_web_server import make_resolver

endpoint = Endpoint("127.0.0.1", int(sys.argv.pop(1)))
jobs.ingest_page = partial(jobs.ingest_page, fetch=SafeFetch(FETCH_RULES, make_resolver(endpoint)))
main()
"""
"""Replaces the fetcher of pages, which would refuse the loopback address, and runs the command."""
_TIMEOUT_SECONDS: Final = 120
"""A command that takes this long hangs, even on a busy machine."""


def run_ingest_url(
    server: PublicWebServer, url: str, *options: str, environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """Run the command, and return its exit code, output and errors.

    Args:
        server: The web server.
        url: The URL to ingest.
        options: Further arguments of the command.
        environment: Variables to add to this process's own.
    """
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(server.server_port), "ingest", url, *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    return process.returncode, process.stdout, process.stderr

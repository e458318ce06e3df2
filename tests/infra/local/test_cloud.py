"""A cloud on this machine ends with whoever started it, however that came."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

from infra.deploy.discovery import ROOT
from infra.local.processes import answers

STARTED = """
from infra.local.cloud import cloud

with cloud(["get_chunk"], {}) as running:
    print(running.urls["get_chunk"], running.functions["get_chunk"].url, flush=True)
    input()
"""


def test_a_cloud_ends_with_who_started_it_even_if_that_is_killed() -> None:
    command = [sys.executable, "-c", STARTED]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout
        hosts = [urlsplit(url).netloc for url in starter.stdout.readline().split()]
        assert [True, True] == [answers(host) for host in hosts]
        starter.send_signal(signal.SIGKILL)
        starter.wait()
    deadline = time.monotonic() + 10
    while any(answers(host) for host in hosts):
        assert time.monotonic() < deadline

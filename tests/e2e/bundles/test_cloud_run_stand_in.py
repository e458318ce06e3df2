"""The fake Cloud Run names a dead process, and ends with the process that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
from urllib.parse import urlsplit

from infra.build.discovery import ROOT
from infra.local.processes import is_listening
from tests.support.cloud_run.cloud import run_cloud

PARENT_PROGRAM = """
from tests.support.cloud_run.cloud import run_cloud

with run_cloud(["get_chunk"], {}) as running:
    print(running.urls["get_chunk"], running.functions["get_chunk"].url, flush=True)
    input()
"""


def test_a_fake_cloud_ends_with_its_parent() -> None:
    command = [sys.executable, "-c", PARENT_PROGRAM]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        hosts = [urlsplit(url).netloc for url in parent.stdout.readline().split()]
        assert [is_listening(host) for host in hosts] == [True, True]
        parent.send_signal(signal.SIGKILL)
        parent.stdout.read()  # ends with the last process that may write there
    assert [is_listening(host) for host in hosts] == [False, False]


def test_a_dead_process_of_the_fake_cloud_is_named() -> None:
    with run_cloud(["get_chunk"], {}) as fake_cloud:
        assert not fake_cloud.describe_dead_process()
        fake_cloud.functions["get_chunk"].kill()
        assert fake_cloud.describe_dead_process() == "The function of get_chunk"
    with run_cloud(["get_chunk"], {}) as fake_cloud:
        fake_cloud.front.kill()
        fake_cloud.front.wait()
        assert fake_cloud.describe_dead_process() == "The fake Cloud Run"

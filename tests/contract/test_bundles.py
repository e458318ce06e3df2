"""What each function loads at its start: only what its bundle will hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from infra.deploy.discovery import jobs, tools
from tests.e2e.running import SECRET

TOOLS = [f"functions.tools.{tool.name}.main" for tool in tools()]
JOBS = [f"functions.jobs.{job.name}.main" for job in jobs()]
EVERYWHERE = ["infra", "numpy", "onnxruntime", "google.genai", "google.cloud.aiplatform"]
MCP = ["mcp", "mcp_types"]
ACCESS = ["shared.store.access", "jwt"]


@pytest.mark.parametrize(
    ("entry", "unwanted"),
    [
        *(
            (name, [*EVERYWHERE, *MCP, *ACCESS, "functions.gateway", "functions.jobs"])
            for name in TOOLS
        ),
        *(
            (name, [*EVERYWHERE, *MCP, *ACCESS, "functions.gateway", "functions.tools"])
            for name in JOBS
        ),
        ("functions.gateway.main", [*EVERYWHERE, "functions.tools", "functions.jobs"]),
    ],
)
def test_a_function_starts_without_what_it_does_not_need(entry: str, unwanted: list[str]) -> None:
    code = f"import json, sys, {entry}; print(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "ACCESS_SECRETS": json.dumps([SECRET])}
    started = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment
    )
    assert sorted(set(unwanted) & set(json.loads(started.stdout))) == []


def test_the_gateway_reads_its_catalogue_once() -> None:
    code = """
import sys
seen = []
sys.addaudithook(lambda event, told: seen.append(str(told[0])) if event == "open" else None)
import functions.gateway.main
print(sum(each.endswith("catalog.json") for each in seen))
"""
    environment = {**os.environ, "ACCESS_SECRETS": json.dumps([SECRET])}
    command = [sys.executable, "-c", code]
    assert b"1\n" == subprocess.check_output(command, env=environment)

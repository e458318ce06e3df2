"""A function runs from its bundle, with only its files, modules and variables."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.build.discovery import ROOT
from infra.local.processes import StartError, serve
from tests.support.cloud_run.bundles import LAPTOP
from tests.support.cloud_run.cloud import make_deployed_program

SECRETS = {
    "ACCESS_SECRETS": "of the gateway",
    "GOOGLE_CLIENT_SECRET": "of the gateway, too",
    "READWISE_TOKEN": "of the job that reads",
    "OPENAI_API_KEY": "of those that embed",
    "GENERATION_API_KEY": "of those that generate text",
    "AWS_SECRET_ACCESS_KEY": "of whoever runs this",
}
"""The value of each secret, which says who may read it."""
REPORT_SCRIPT = """
import json, os, sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(os.getcwd())  # as the framework does

def is_importable(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False

names = sys.argv[1:]
folders = [folder for kind in ("tools/*/*", "jobs/*") for folder in Path("functions").glob(kind)]
print(json.dumps({
    "variables": dict(os.environ),
    "path": sys.path,
    "functions": sorted(folder.name for folder in folders),
    "modules": [name for name in names if is_importable(name)],
}))
"""
"""A program that prints its variables, path, tools and jobs, and importable modules as JSON."""
MODULES = (
    "shared.core.settings", "functions_framework", "google.cloud.firestore",
    "functions.gateway.main", "shared.accounts", "mcp", "sklearn", "infra", "tests", "pytest", "uv",
    "carrel",
)  # fmt: skip
"""The modules that the program tries to import."""


def run_and_report(name: str) -> dict[str, Any]:
    """Run a script in the environment of a function, and return what it reports."""
    program = make_deployed_program(name, {"GOOGLE_CLOUD_PROJECT": "carrel", **SECRETS})
    process = subprocess.run(
        [program.python, "-P", "-c", REPORT_SCRIPT, *MODULES],
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(process.stdout)
    return report


COMMON_MODULES = {"shared.core.settings", "functions_framework", "google.cloud.firestore"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "modules", "secrets", "tools_and_jobs"),
    [
        (
            "gateway",
            COMMON_MODULES | {"functions.gateway.main", "shared.accounts", "mcp"},
            {"ACCESS_SECRETS", "GOOGLE_CLIENT_SECRET"},
            [],
        ),
        ("get_chunk", COMMON_MODULES, set(), ["get_chunk"]),
        ("search_kb", COMMON_MODULES, {"OPENAI_API_KEY"}, ["search_kb"]),
        pytest.param(
            "ingest", COMMON_MODULES, {"READWISE_TOKEN"}, ["ingest"], marks=pytest.mark.slow
        ),
        pytest.param(
            "cluster",
            COMMON_MODULES | {"sklearn"},
            {"GENERATION_API_KEY"},
            ["cluster"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_function_has_only_its_modules_and_variables(
    name: str, modules: set[str], secrets: set[str], tools_and_jobs: list[str]
) -> None:
    report = run_and_report(name)
    assert set(report["modules"]) == modules
    assert report["variables"].keys() & SECRETS.keys() == secrets
    assert report["variables"]["GOOGLE_CLOUD_PROJECT"] == "carrel"
    assert report["functions"] == tools_and_jobs
    # Of the repository, only the folder with unpacked bundles and their environments is searched.
    repository_paths = [path for path in report["path"] if path.startswith(str(ROOT))]
    assert [path for path in repository_paths if not path.startswith(str(LAPTOP))] == []


def test_a_quick_run_imports_the_bundle_and_not_the_checkout() -> None:
    """Otherwise a bundle that lacks a module, or has another, passes every test."""
    report = run_and_report("get_chunk")
    own_modules = {"shared.core.settings", "functions_framework", "google.cloud.firestore"}
    assert own_modules <= {*report["modules"]}
    assert {*report["modules"]} & {"functions.gateway.main", "shared.accounts", "infra"} == set()
    assert report["functions"] == ["get_chunk"]


def test_a_fault_planted_in_a_bundle_is_served(tmp_path: Path) -> None:
    program = make_deployed_program("get_chunk", {"GOOGLE_CLOUD_PROJECT": "carrel"})
    folder = tmp_path / "get_chunk"
    shutil.copytree(program.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    tool = folder / "functions" / "tools" / "knowledge" / "get_chunk" / "tool.py"
    tool.write_text(tool.read_text("utf-8") + "\nraise RuntimeError('planted')\n", "utf-8")
    log = tmp_path / "log"
    planted = replace(program, source=folder / "main.py", folder=folder)
    with pytest.raises(StartError), serve(planted, log=log):
        pass
    assert "RuntimeError: planted" in log.read_text("utf-8")

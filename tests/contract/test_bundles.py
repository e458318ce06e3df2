"""A function that starts loads only modules of its bundle, the archive it is deployed from."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functions.jobs.ingest.readers.pdf import program as pdf_program
from infra.build.bundles import list_excluded_modules
from infra.build.discovery import ROOT
from infra.build.functions import Function, functions
from infra.build.imports import follow_imports
from infra.build.requirements import find_requirements
from tests.support.gateway_process import ACCESS_SECRET

DOCUMENT_PARSERS = {"lxml", "pypdfium2", "trafilatura"}
UNWANTED_IN_ALL = {
    *DOCUMENT_PARSERS,
    "infra",
    "numpy",
    "onnxruntime",
    "google.genai",
    "google.cloud.aiplatform_v1",
}
UNWANTED_IN_TOOLS_AND_JOBS = {*UNWANTED_IN_ALL, "mcp", "mcp_types", "shared.accounts", "jwt"}
UNWANTED = {
    "gateway": {*UNWANTED_IN_ALL, "functions.gateway.console.app"},
    "tool": UNWANTED_IN_TOOLS_AND_JOBS,
    "job": UNWANTED_IN_TOOLS_AND_JOBS,
}
"""The modules that a function of each kind does not load at its start."""
OWN_FOLDERS = (str(ROOT / "functions"), str(ROOT / "shared"))
JOB_CODE = {
    ROOT / "shared" / folder / f"{module}.py"
    for folder, module in (
        ("runtime", "job"),
        ("runtime", "job_serving"),
        ("firestore", "leases"),
        ("firestore", "runs"),
    )
}
"""The modules that only jobs need."""
ONE_OF_EACH_KIND = ("gateway", "get-chunk", "index")
"""The functions that quick tests start. The slow tests start a process for each other function."""


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            function,
            id=function.key,
            marks=() if function.key in ONE_OF_EACH_KIND else pytest.mark.slow,
        )
        for function in functions()
    ],
)
def test_a_function_loads_only_its_bundle(function: Function) -> None:
    code = f"""
{function.main}
import json, sys
print(json.dumps({{name: getattr(m, "__file__", None) for name, m in sys.modules.items()}}))
"""
    environment = {**os.environ, "ACCESS_SECRETS": json.dumps([ACCESS_SECRET])}
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, cwd=ROOT)
    loaded: dict[str, str | None] = json.loads(output)

    assert UNWANTED[function.kind] & loaded.keys() == set()

    own_files = {Path(path) for path in loaded.values() if path and path.startswith(OWN_FOLDERS)}
    assert own_files - follow_imports(function.main).files == set()
    assert own_files


def test_only_bundles_of_jobs_contain_job_code() -> None:
    """One tool reads the records of runs."""
    for function in functions():
        expected = JOB_CODE if function.kind == "job" else set()
        if function.name == "list_origins":
            expected = {ROOT / "shared/firestore/runs.py"}
        assert JOB_CODE & follow_imports(function.main).files == expected


def test_only_bulk_embedding_requires_aiplatform() -> None:
    """The package is large, and its import takes seconds."""
    bundles = set()
    for function in functions():
        modules = follow_imports(function.main, list_excluded_modules(function)).other_modules
        if "google-cloud-aiplatform>=2.7" in find_requirements(modules):
            bundles.add(function.name)
    assert bundles == {"embed", "reembed"}


def test_only_ingest_depends_on_document_parsers() -> None:
    """Trafilatura and its dependencies take 50 MB and parse what strangers wrote."""
    bundles = {}
    for function in functions():
        modules = follow_imports(function.main, list_excluded_modules(function)).other_modules
        names = {re.split(r"[^\w-]", line)[0] for line in find_requirements(modules)}
        if DOCUMENT_PARSERS & names:
            bundles[function.name] = DOCUMENT_PARSERS & names
    assert bundles == {"ingest": DOCUMENT_PARSERS}


def test_the_bundle_of_ingest_has_the_program_that_reads_pdf() -> None:
    """The program is started in a process of its own, so no call leads to it."""
    (ingest,) = (function for function in functions() if function.name == "ingest")
    program = ROOT.joinpath(*pdf_program.__name__.split(".")).with_suffix(".py")
    assert program in follow_imports(ingest.main).files


def test_the_gateway_reads_its_catalog_once() -> None:
    code = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import functions.gateway.main
print(sum(path.endswith("catalog.json") for path in opened))
"""
    environment = {**os.environ, "ACCESS_SECRETS": json.dumps([ACCESS_SECRET])}
    command = [sys.executable, "-c", code]

    assert subprocess.check_output(command, env=environment) == b"1\n"


def test_the_bundle_of_the_gateway_has_the_console() -> None:
    """The console's code is imported with the first page, and its templates are read then."""
    (gateway,) = (function for function in functions() if function.kind == "gateway")
    folder = ROOT / "functions" / "gateway" / "console"
    files = {path for path in folder.rglob("*.*") if "__pycache__" not in path.parts}
    assert files - follow_imports(gateway.main).files == set()
    assert {".css", ".html", ".js", ".svg"} <= {path.suffix for path in files}

"""Modules import only what they need, and need nothing that a bare machine lacks.

Each test imports a module in a new process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_python(code: str, **environment: str) -> str:
    """Run code in a new process with additional variables; return what it prints."""
    command = [sys.executable, "-c", code]
    output = subprocess.check_output(command, env={**os.environ, **environment}, text=True)
    return output.strip()


def test_an_embedder_imports_no_http_client_before_it_embeds() -> None:
    code = "import sys, shared.ai.openai_embedding; print('httpx2' in sys.modules)"
    assert run_python(code) == "False"


def test_only_tools_that_scan_import_the_scanners() -> None:
    code = (
        "import sys, shared.screening.screen as screen; screen.make_screening_error({}, ''); "
        "print({'phonenumbers', 'regex', 'stdnum'} & set(sys.modules))"
    )
    assert run_python(code) == "set()"


def test_the_list_of_commands_imports_no_command() -> None:
    code = (
        "import sys; from infra.cli import main; main.main(['--help'], standalone_mode=False); "
        "commands = {f'infra.cli.{plan.module}' for plan in main.PLANS.values()}; "
        "heavy = {'google.cloud.firestore', 'mcp_types', 'pydantic'}; "
        "print((commands | heavy) & set(sys.modules))"
    )
    assert run_python(code).endswith("{'infra.cli.main'}")


def test_a_start_imports_no_database_before_the_gateway() -> None:
    code = (
        "import sys, infra.local.local_run; "
        "heavy = {'google.cloud.firestore', 'apsw', 'mcp_types', 'pydantic', 'tomlkit'}; "
        "print(heavy & set(sys.modules))"
    )
    assert run_python(code) == "set()"


@pytest.mark.parametrize(
    ("variables", "is_loaded"), [({}, True), ({"EMBEDDING_PROVIDER": "vertex"}, False)]
)
def test_a_local_gateway_loads_the_model_unasked(
    variables: dict[str, str], tmp_path: Path, *, is_loaded: bool
) -> None:
    code = """if True:
        import atexit, sys, infra.local.gateway_main
        atexit.register(lambda: print('onnxruntime' in sys.modules))  # called after all threads
    """
    secrets = f'["{"s" * 32}"]'
    environment = {"ACCESS_SECRETS": secrets, "CARREL_STATE": str(tmp_path), "LOCAL_USER": "local"}
    environment["FIRESTORE_EMULATOR_HOST"] = ""
    assert run_python(code, **environment, **variables) == str(is_loaded)


def test_a_local_gateway_deletes_the_files_of_a_killed_download(tmp_path: Path) -> None:
    left = tmp_path / "exports" / "tmp1" / "chunks.jsonl"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    secrets = f'["{"s" * 32}"]'
    environment = {"ACCESS_SECRETS": secrets, "CARREL_STATE": str(tmp_path), "LOCAL_USER": "local"}
    run_python("import infra.local.gateway_main", **environment, FIRESTORE_EMULATOR_HOST="")
    assert not left.exists()


def test_time_zones_work_without_system_files() -> None:
    code = "from shared.core.dates import load_time_zone; print(load_time_zone('Asia/Tokyo'))"
    assert run_python(code, PYTHONTZPATH="") == "Asia/Tokyo"


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        {"ACCESS_SECRETS": "zyzzyva"},  # is not JSON
        {"ACCESS_SECRETS": '["zyzzyva"]'},  # is too short
        {"ACCESS_SECRETS": '["zyzzyva'},
        {"ACCESS_SECRETS": f'["{"zyzzyva" * 5}"]', "LEASE_SECONDS": "soon"},
        {"BILLING_TOKEN": '["zyzzyva"]'},  # has no BILLING_URL
    ],
)
def test_a_gateway_that_cannot_start_logs_no_secret(variables: dict[str, str]) -> None:
    command = [sys.executable, "-c", "import functions.gateway.main"]
    environment = {**os.environ, "ACCESS_SECRETS": f'["{"s" * 32}"]', **variables}
    process = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert process.returncode == 1
    assert process.stdout == ""
    assert any(name in process.stderr.upper() for name in variables)
    assert "zyzzyva" not in process.stderr

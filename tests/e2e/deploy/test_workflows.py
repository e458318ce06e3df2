"""What the workflows and the image run exists, and a release takes its notes from the changelog."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from infra.build.discovery import ROOT
from infra.cli.main import main

JOBS: Final[dict[str, dict[str, Any]]] = {
    f"{path.stem} {name}": job
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
}
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def get_script(job: str, name: str) -> str:
    """Return the script of a step."""
    [script] = [step["run"] for step in JOBS[job]["steps"] if step.get("name") == name]
    return str(script)


def run_script(script: str, folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub does for the tag of a version."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "GITHUB_REF_NAME": f"v{version}"},
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_make_target_of_the_workflows_exists() -> None:
    scripts = [step.get("run", "") for job in JOBS.values() for step in job.get("steps", [])]
    targets = re.findall(r"make ([a-z-]+)", "\n".join(scripts))
    targets += [row["target"] for row in JOBS["ci test"]["strategy"]["matrix"]["include"]]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_a_release_takes_its_notes_from_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    changelog = "# Changelog\n\n## 0.2.1\n\n- Later.\n\n## 0.2.0\n\n- First.\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    script = get_script("release build", "Take the notes from the changelog")
    assert run_script(script, tmp_path, "0.2.1").returncode == 0
    assert (tmp_path / "dist" / "notes.md").read_text().strip() == "- Later."
    assert run_script(script, tmp_path, "0.2").returncode == 1
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    assert run_script(script, tmp_path, VERSION).returncode == 0


@pytest.mark.parametrize(
    ("owner", "version", "status"), [("ann", VERSION, 0), ("ann", "9.9", 1), ("OWNER", VERSION, 1)]
)
def test_a_release_needs_the_version_of_its_tag_and_an_owner(
    tmp_path: Path, owner: str, version: str, status: int
) -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8").replace("OWNER", owner)
    (tmp_path / "pyproject.toml").write_text(project, "utf-8")
    script = get_script("release build", "Check that pyproject.toml has this version and an owner")
    assert run_script(script, tmp_path, version).returncode == status


def test_the_image_runs_a_command_of_carrel() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    [command] = [line for line in lines if line.startswith("CMD ")]
    program, name, *arguments = json.loads(command.removeprefix("CMD "))
    assert program == "carrel"
    context = main.commands[name].make_context(name, arguments)
    assert context.params["sign_in"]

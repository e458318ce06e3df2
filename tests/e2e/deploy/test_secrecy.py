"""Values of secrets go to Secret Manager in bodies of requests, and nowhere else."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from infra.cloud.errors import CommandFailed
from infra.cloud.plan import FULL_DEPLOY, run_steps
from infra.cloud.smoke_key import SECRET_NAME
from tests.support.deploying_checkout import NEEDS_TERRAFORM, SECRET_VALUE, make_checkout

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fakes.google_cloud import FakeGoogleCloud

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow]


def make_recording_terraform(folder: Path) -> str:
    """Return a PATH with a Terraform that records its arguments and its environment."""
    folder.mkdir()
    path = folder / "terraform"
    real_terraform = shutil.which("terraform")
    path.write_text(f'#!/bin/sh\n(echo "$@"; env) >> {folder}/record\nexec {real_terraform} "$@"\n')
    path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_no_secret_is_printed_passed_or_left_on_disk(
    tmp_path: Path, project: str, google: FakeGoogleCloud, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    checkout = make_checkout(
        folder,
        project,
        google.address,
        secrets=("READWISE_TOKEN",),
        path=make_recording_terraform(tmp_path / "bin"),
    )
    lines: list[str] = []
    run_steps(checkout.make_cloud(lines.append), FULL_DEPLOY)

    secrets = google.projects[project].secrets
    [readwise_token] = secrets["READWISE_TOKEN"]
    [access_secrets] = secrets["ACCESS_SECRETS"]
    [smoke_key] = secrets[SECRET_NAME]
    assert readwise_token == SECRET_VALUE

    files = [path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()]
    terminal_output = capfd.readouterr()
    outputs = [*lines, *files, *google.addresses, terminal_output.out, terminal_output.err]
    for value in (readwise_token, access_secrets, smoke_key):
        assert not any(value in text for text in outputs)


def test_a_secret_that_has_a_value_is_not_asked_for(
    tmp_path: Path, project: str, google: FakeGoogleCloud
) -> None:
    google.projects[project].secrets["READWISE_TOKEN"] = ["known"]
    checkout = make_checkout(tmp_path, project, google.address, secrets=("READWISE_TOKEN",))
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert google.projects[project].secrets["READWISE_TOKEN"] == ["known"]


def test_a_secret_without_an_answer_stops_the_deployment(
    tmp_path: Path, project: str, google: FakeGoogleCloud
) -> None:
    checkout = make_checkout(
        tmp_path, project, google.address, secrets=("READWISE_TOKEN",), answers="\n"
    )
    with pytest.raises(CommandFailed, match="gcloud secrets versions add READWISE_TOKEN"):
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert not checkout.read_running()

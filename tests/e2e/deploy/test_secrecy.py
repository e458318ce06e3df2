"""Values of secrets go to Secret Manager in bodies of requests, and nowhere else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click
import pytest

from infra.cloud.release import deploy
from infra.cloud.smoke_key import SECRET_NAME
from tests.support.deploying_checkout import NEEDS_TERRAFORM, SECRET_VALUE, make_checkout
from tests.support.fakes.secret_manager import FakeSecretManager

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow, pytest.mark.usefixtures("storage")]


def make_recording_terraform(folder: Path) -> str:
    """Return a PATH with a Terraform that records its arguments and its environment."""
    folder.mkdir()
    path = folder / "terraform"
    real_terraform = shutil.which("terraform")
    path.write_text(f'#!/bin/sh\n(echo "$@"; env) >> {folder}/record\nexec {real_terraform} "$@"\n')
    path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_no_secret_is_printed_passed_or_left_on_disk(
    tmp_path: Path, project: str, google: FakeSecretManager, capfd: pytest.CaptureFixture[str]
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
    deploy(checkout.make_cloud(lines.append))

    secrets = google.secrets
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
    tmp_path: Path, project: str, google: FakeSecretManager
) -> None:
    google.secrets["READWISE_TOKEN"] = ["known"]
    checkout = make_checkout(tmp_path, project, google.address, secrets=("READWISE_TOKEN",))
    deploy(checkout.make_cloud())
    assert google.secrets["READWISE_TOKEN"] == ["known"]


def test_a_secret_without_an_answer_stops_the_deployment(
    tmp_path: Path, project: str, google: FakeSecretManager
) -> None:
    checkout = make_checkout(
        tmp_path, project, google.address, secrets=("READWISE_TOKEN",), answers="\n"
    )
    with pytest.raises(click.ClickException, match="gcloud secrets versions add READWISE_TOKEN"):
        deploy(checkout.make_cloud())
    assert not checkout.read_running()

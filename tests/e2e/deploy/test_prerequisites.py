"""An error names each missing prerequisite of a deployment, and says what to do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.build.discovery import ROOT
from infra.cloud.secret_values import SecretValues
from infra.cloud.terraform import Terraform
from tests.support.fakes.secret_manager import FakeSecretManager


def make_values(project: str, address: str) -> SecretValues:
    """Connect to a fake Secret Manager."""
    session = AuthorizedSession(AnonymousCredentials())
    return SecretValues(project, session=session, address=address)


def test_missing_credentials_name_the_sign_in_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(click.ClickException) as failure:
        SecretValues("some-project")
    assert "Next: gcloud auth application-default login" in str(failure.value)


def test_an_unreachable_google_is_reported(project: str) -> None:
    with FakeSecretManager(project, "A") as google:
        address = google.address
    with pytest.raises(click.ClickException, match="does not answer"):
        make_values(project, address).has("A")


def test_a_missing_secret_has_no_value(project: str) -> None:
    with FakeSecretManager(project, "EMPTY") as google:
        values = make_values(project, google.address)
        assert not values.has("MISSING")
        assert not values.has("EMPTY")
        for name in ("MISSING", "EMPTY"):
            with pytest.raises(click.ClickException, match=f"The secret {name} does not exist"):
                values.read(name)
        with pytest.raises(click.ClickException, match="The secret MISSING does not exist"):
            values.add("MISSING", "value")


def test_a_missing_terraform_is_reported(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="Terraform is missing"):
        Terraform(backend={}, environment={"PATH": str(tmp_path)}).init()


def test_a_failed_terraform_says_to_repeat(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "terraform"
    path.write_text("#!/bin/sh\necho Error: the state is locked >&2; exit 1\n")
    path.chmod(0o755)
    terraform = Terraform(
        backend={}, environment={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    )
    with pytest.raises(click.ClickException, match=r"terraform apply failed \(1\)") as failure:
        terraform.apply()
    assert "run the same command again" in str(failure.value)
    assert "the state is locked" in capfd.readouterr().err


def test_an_interrupted_terraform_can_save_its_state(tmp_path: Path) -> None:
    """Ctrl-C reaches both processes. If Terraform were killed, its state would lack resources."""
    os.mkfifo(tmp_path / "begun")
    path = tmp_path / "terraform"
    path.write_text(
        "#!/bin/sh\n"
        f"trap 'sleep 1; echo kept > {tmp_path}/state; exit 1' INT\n"
        f"echo begun > {tmp_path}/begun\n"
        "while :; do sleep 0.1; done\n"
    )
    path.chmod(0o755)
    program = (  # a shell's background process ignores Ctrl-C, and its children would
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from infra.cloud.terraform import Terraform;"
        "Terraform(backend={}).apply()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert (tmp_path / "begun").read_text() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (tmp_path / "state").read_text() == "kept\n"
    assert b"KeyboardInterrupt" in errors

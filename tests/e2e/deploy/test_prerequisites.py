"""An error names each missing prerequisite of a deployment, and says what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.build.discovery import ROOT
from infra.cloud.errors import CommandFailed
from infra.cloud.google_api import GoogleApi, open_google_session
from infra.cloud.plan import FULL_DEPLOY, run_steps
from infra.cloud.services import SERVICES, TELEMETRY_SERVICES, add_budget, look_up_project_number
from infra.cloud.terraform import Terraform
from tests.support.deploying_checkout import NEEDS_TERRAFORM, get_message
from tests.support.fakes.google_cloud import PROJECT_NUMBER, FakeGoogleCloud, Project

if TYPE_CHECKING:
    from tests.support.deploying_checkout import Checkout


def make_api(address: str) -> GoogleApi:
    """Make a client of the fake APIs that does not wait between attempts."""
    session = AuthorizedSession(AnonymousCredentials())
    return GoogleApi(session, address, sleep=lambda _: None)


def make_terraform(folder: Path, version: str) -> str:
    """Return a PATH with a Terraform that reports this version."""
    path = folder / "terraform"
    path.write_text(f"""#!/bin/sh\necho '{{"terraform_version": "{version}"}}'\n""")
    path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_an_existing_project_has_a_number(project: str) -> None:
    with FakeGoogleCloud() as google:
        google.projects[project] = Project()
        assert look_up_project_number(make_api(google.address), project) == PROJECT_NUMBER


def test_a_missing_project_is_reported() -> None:
    with FakeGoogleCloud() as google, pytest.raises(CommandFailed) as failure:
        look_up_project_number(make_api(google.address), "no-such-project")
    message = get_message(failure)
    assert "The project no-such-project does not exist, or you have no access to it" in message
    assert "Next: gcloud projects describe no-such-project" in message


def test_a_disabled_service_usage_api_is_reported(project: str) -> None:
    with FakeGoogleCloud() as google:
        google.projects[project] = Project(services=set())
        with pytest.raises(CommandFailed) as failure:
            look_up_project_number(make_api(google.address), project)
    command = f"gcloud services enable serviceusage.googleapis.com --project {project}"
    assert command in get_message(failure)


@NEEDS_TERRAFORM
def test_a_project_without_billing_is_not_changed(
    checkout: Checkout, google: FakeGoogleCloud
) -> None:
    google.projects[checkout.project].has_billing = False
    with pytest.raises(CommandFailed) as failure:
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert "Step 2 of 8 failed: check billing." in get_message(failure)
    assert f"Next: gcloud billing projects link {checkout.project}" in get_message(failure)
    assert not checkout.read_running()


@NEEDS_TERRAFORM
def test_a_deployment_enables_apis_and_waits_for_them(
    checkout: Checkout, google: FakeGoogleCloud
) -> None:
    google.projects[checkout.project].remaining_rejections = 7
    run_steps(checkout.make_cloud(), FULL_DEPLOY[:3])
    assert google.projects[checkout.project].services == set(SERVICES)


@NEEDS_TERRAFORM
def test_spans_for_google_need_two_more_apis(checkout: Checkout, google: FakeGoogleCloud) -> None:
    cloud = checkout.make_cloud()
    settings = {**cloud.deployment.settings, "TELEMETRY": "gcp"}
    deployment = cloud.deployment.model_copy(update={"settings": settings})
    run_steps(replace(cloud, deployment=deployment), FULL_DEPLOY[:1])
    assert google.projects[checkout.project].services == {*SERVICES, *TELEMETRY_SERVICES}


@NEEDS_TERRAFORM
def test_a_single_api_is_enabled_without_a_batch(
    checkout: Checkout, google: FakeGoogleCloud
) -> None:
    """A batch must contain at least two APIs."""
    project = google.projects[checkout.project]
    project.services = set(SERVICES) - {"run.googleapis.com"}
    run_steps(checkout.make_cloud(), FULL_DEPLOY[:1])
    assert project.services == set(SERVICES)
    assert not [address for address in google.addresses if "batchEnable" in address]


@NEEDS_TERRAFORM
def test_a_budget_belongs_to_the_billing_account(checkout: Checkout) -> None:
    cloud = checkout.make_cloud()
    deployment_with_budget = cloud.deployment.model_copy(update={"monthly_budget": 7})
    deployment = add_budget(replace(cloud, deployment=deployment_with_budget)).deployment
    assert deployment.billing_account == "012345-567890-ABCDEF"
    assert deployment.monthly_budget == 7


@NEEDS_TERRAFORM
def test_without_a_budget_billing_is_not_looked_up(
    checkout: Checkout, google: FakeGoogleCloud
) -> None:
    assert add_budget(checkout.make_cloud()).deployment.billing_account is None
    assert google.requests["cloudbilling"] == 0


@NEEDS_TERRAFORM
def test_a_budget_requires_a_billing_account(checkout: Checkout, google: FakeGoogleCloud) -> None:
    google.projects[checkout.project].has_billing = False
    cloud = checkout.make_cloud()
    deployment_with_budget = cloud.deployment.model_copy(update={"monthly_budget": 7})
    with pytest.raises(CommandFailed, match="has no open billing account"):
        add_budget(replace(cloud, deployment=deployment_with_budget))


def test_missing_credentials_name_the_sign_in_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(CommandFailed) as failure:
        open_google_session("some-project")
    assert "Next: gcloud auth application-default login" in get_message(failure)


def test_an_unreachable_google_is_reported() -> None:
    with FakeGoogleCloud() as google:
        address = google.address
    with pytest.raises(CommandFailed, match="does not answer"):
        look_up_project_number(make_api(address), "some-project")


def test_a_missing_terraform_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="Terraform is missing"):
        Terraform(environment={"PATH": str(tmp_path)}).require_version()


def test_an_old_terraform_is_rejected(tmp_path: Path) -> None:
    old_terraform = Terraform(environment={"PATH": make_terraform(tmp_path, "1.8.5")})
    message = r"Terraform 1\.8\.5 is too old: 1\.9 or newer is required"
    with pytest.raises(CommandFailed, match=message):
        old_terraform.require_version()


def test_a_new_enough_terraform_is_accepted(tmp_path: Path) -> None:
    terraform = Terraform(environment={"PATH": make_terraform(tmp_path, "1.10.2")})
    assert terraform.require_version() == "1.10.2"


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
        "from pathlib import Path; from infra.cloud.terraform import Terraform;"
        "Terraform().apply(Path('v'), Path('m'))"
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


def test_a_locked_state_names_the_unlock_command(tmp_path: Path) -> None:
    path = tmp_path / "terraform"
    path.write_text(
        "#!/bin/sh\n"
        "printf 'Error: Error acquiring the state lock\\n\\nLock Info:\\n  ID: 17\\n' >&2; exit 1\n"
    )
    path.chmod(0o755)
    locked_terraform = Terraform(
        environment={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    )
    with pytest.raises(CommandFailed, match="terraform -chdir=infra/terraform force-unlock 17"):
        locked_terraform.apply(Path("v"), Path("m"))

"""A checkout that deploys to fake services with the real Terraform.

The Terraform configuration "deploys" a function by writing the name of its bundle to a file. The
code of a function is a word, such as "good". The smoke test fails if the gateway's code is "bad",
and raises an error if it is "broken".
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.cloud.bucket import Bucket
from infra.cloud.deployment import FILE_NAME, Deployment
from infra.cloud.release import Cloud
from infra.cloud.secret_values import SecretValues
from infra.cloud.smoke import SmokeReport
from infra.cloud.terraform import Terraform

NEEDS_TERRAFORM: Final = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="Terraform is missing"
)
WORKING_CODE: Final = {"gateway": "good", "search-kb": "good", "embed": "good"}
"""The code of each function at first."""
SECRET_VALUE: Final = "typed-by-a-person-and-seen-by-nobody"
"""The value that a person types for each secret."""
CONFIGURATION: Final = """
terraform {
  backend "local" {}
}
variable "manifest" { type = string }
variable "protect_data" { type = bool }
locals { functions = jsondecode(file(var.manifest)).functions }
resource "terraform_data" "function" {
  for_each         = local.functions
  triggers_replace = each.value.bundle
  provisioner "local-exec" {
    command = "echo ${each.value.bundle} > running-${each.key}; echo ${each.key} >> deployed.log"
    working_dir = path.module
  }
}
output "gateway_url" { value = "https://carrel.example.com" }
"""
"""The Terraform configuration in place of Carrel's."""


@dataclass(frozen=True)
class Checkout:
    """A checkout that deploys to fake services.

    Attributes:
        folder: The folder of the checkout.
        project: The id of the project.
        google: The URL of the fake Secret Manager.
        answers: The answer to each prompt for a secret.
        secrets: The names of the optional secrets in use.
        path: The PATH variable of programs; by default, the machine's.
        key: The access key of the smoke test, if the environment has one.
    """

    folder: Path
    project: str
    google: str
    answers: str = SECRET_VALUE
    secrets: tuple[str, ...] = ()
    path: str = field(default_factory=lambda: os.environ["PATH"])
    key: str = ""

    @property
    def terraform(self) -> Path:
        """The folder of the configuration, with the files that it writes."""
        return self.folder / "terraform"

    def write_code(self, code: dict[str, str]) -> None:
        """Set the code of each function for the next deployment."""
        (self.folder / "code.json").write_text(json.dumps(code))

    def read_running(self) -> dict[str, str]:
        """Return the path of the bundle that each function runs, by function."""
        paths = self.terraform.glob("running-*")
        return {path.name.removeprefix("running-"): path.read_text().strip() for path in paths}

    def read_deployed(self) -> list[str]:
        """Return the functions in the order of their deployments, one for each deployment."""
        return (self.terraform / "deployed.log").read_text().split()

    def read_manifest(self) -> dict[str, Any]:
        """Return the staged manifest."""
        manifest: dict[str, Any] = json.loads((self.folder / "dist/manifest.json").read_text())
        return manifest

    def make_cloud(self, echo: Callable[[str], object] = lambda _: None) -> Cloud:
        """Write the deployment file, and connect to the services.

        Args:
            echo: A function that gets each line of output.
        """
        settings = {"EMBEDDING_PROVIDER": "vertex"}
        fields = {"project": self.project, "settings": settings, "secrets": self.secrets}
        deployment = Deployment.model_validate(fields)
        write_deployment(deployment, self.folder / FILE_NAME)
        session = AuthorizedSession(AnonymousCredentials())
        return Cloud(
            deployment=deployment,
            bucket=Bucket(self.project),
            secrets=SecretValues(self.project, session=session, address=self.google),
            terraform=Terraform(
                folder=self.terraform,
                backend={"path": str(self.folder / "state.tfstate")},
                variables=self.folder / FILE_NAME,
                manifest=self.folder / "dist" / "manifest.json",
                environment={**os.environ, "PATH": self.path},
            ),
            stage=self._stage,
            smoke=self._run_smoke_test,
            ask=lambda _: self.answers,
            echo=echo,
            sleep=lambda _: None,
            key=self.key,
        )

    def _stage(self, target: Path) -> None:
        """Write a bundle for the code of each function, and the manifest."""
        (target / "bundles").mkdir(parents=True, exist_ok=True)
        functions = {}
        for key, content in json.loads((self.folder / "code.json").read_text()).items():
            digest = hashlib.sha256(content.encode()).hexdigest()[:16]
            bundle = f"bundles/{key}-{content}-{digest}.zip"
            (target / bundle).write_text(content)
            functions[key] = {"bundle": bundle}
        (target / "manifest.json").write_text(json.dumps({"functions": functions}))

    async def _run_smoke_test(self, url: str, key: str) -> SmokeReport:
        assert url == "https://carrel.example.com"
        assert key[:7] == "carrel_"
        gateway = self.read_running().get("gateway", "bad")
        return SmokeReport("bad" not in gateway, [f"the gateway runs {gateway}"])


def make_checkout(
    folder: Path, project: str, google: str, **fields: str | tuple[str, ...]
) -> Checkout:
    """Make a checkout with working code in `folder`.

    The `fields` are further fields of `Checkout`.
    """
    checkout = Checkout(folder, project, google, **fields)  # type: ignore[arg-type]
    checkout.terraform.mkdir()
    (checkout.terraform / "main.tf").write_text(CONFIGURATION)
    checkout.write_code(WORKING_CODE)
    return checkout


def write_deployment(deployment: Deployment, path: Path) -> None:
    """Write a deployment file."""
    path.write_text(deployment.model_dump_json(indent=2), "utf-8")


def get_message(failure: pytest.ExceptionInfo[click.ClickException]) -> str:
    """Return the message of an error that a test caught."""
    return failure.value.message

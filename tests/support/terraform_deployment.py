"""Runs Terraform on a copy of Carrel's files, with the fake provider and a local state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from infra.build.discovery import ROOT

PROJECT: Final = "my-carrel-123"
REGION: Final = "europe-west1"
_FILES: Final = ("firestore.indexes.json", "infra/build/*.json", "infra/terraform/*.tf")
"""The files that Terraform reads."""
_LOCAL_BACKEND: Final = 'terraform {\n  backend "local" {}\n}\n'
"""The configuration that stores the state in a file instead of Cloud Storage."""
_NO_CHANGES: Final = {("no-op",), ("read",)}
"""The actions of a plan that change nothing."""


@dataclass(frozen=True)
class Resource:
    """A resource of the state.

    Attributes:
        kind: The type, such as `google_service_account`.
        name: The name in the configuration.
        key: The key or index of an instance, if the resource has `for_each` or `count`.
        values: The attributes and blocks.
    """

    kind: str
    name: str
    key: str | int | None
    values: dict[str, Any]

    @property
    def block(self) -> dict[str, Any]:
        """The values. A block replaces each list that contains only that block."""
        return {name: _unwrap(value) for name, value in self.values.items()}


class Deployment:
    """A folder with Carrel's Terraform files and the state.

    Attributes:
        folder: The folder.
        environment: The environment variables of Terraform.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Use this folder.

        Args:
            folder: The folder with the files and the state.
            environment: The variables with which Terraform finds the provider.
        """
        self.folder = folder
        self.environment = {
            **os.environ,
            **environment,
            "TF_CLI_CONFIG_FILE": os.devnull,
            "CHECKPOINT_DISABLE": "1",
        }

    @classmethod
    def prepare(cls, folder: Path, environment: Mapping[str, str]) -> Self:
        """Copy Carrel's files to a folder, and initialize Terraform."""
        for path in (path for pattern in _FILES for path in ROOT.glob(pattern)):
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        override = folder / "infra" / "terraform" / "backend_override.tf"
        override.write_text(_LOCAL_BACKEND, "utf-8")
        deployment = cls(folder, environment)
        deployment.run("init", "-input=false")
        return deployment

    def copy_to(self, folder: Path) -> Deployment:
        """Copy the deployment with its state to another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Deployment(folder, self.environment)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a Terraform command in the folder of the configuration."""
        return subprocess.run(
            ["terraform", "-chdir=infra/terraform", *arguments, "-no-color"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
        )

    def apply(
        self, manifest: Mapping[str, Any], *targets: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Apply a manifest; with `targets`, only the resources at these addresses."""
        options = [f"-target={address}" for address in targets]
        options += self._write_options(manifest, variables)
        return self.run("apply", "-auto-approve", *options)

    def destroy(
        self, manifest: Mapping[str, Any], **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Destroy all resources that are not protected from it."""
        options = self._write_options(manifest, variables)
        return self.run("destroy", "-auto-approve", *options, check=False)

    def read_plan_error(self, manifest: Mapping[str, Any] | None, variables: dict[str, Any]) -> str:
        """Assert that a plan fails, and return the error as one line."""
        options = self._write_options(manifest, {}) if manifest else []
        process = self.run("plan", *options, *self._write_variable_options(variables), check=False)
        assert process.returncode == 1
        return " ".join(line.strip("│╷╵ ") for line in process.stderr.splitlines())

    def plan_changes(self, manifest: Mapping[str, Any], **variables: Any) -> dict[str, list[str]]:
        """Return the actions of a plan by the resource's address: `create`, `update`, `delete`."""
        self.run("plan", "-out=plan", *self._write_options(manifest, variables))
        plan = json.loads(self.run("show", "-json", "plan").stdout)
        return {
            change["address"]: change["change"]["actions"]
            for change in plan["resource_changes"]
            if tuple(change["change"]["actions"]) not in _NO_CHANGES
        }

    def read_resources(self) -> Iterator[Resource]:
        """Yield the resources in the state."""
        state = json.loads(self.run("show", "-json").stdout)
        for resource in state["values"]["root_module"]["resources"]:
            yield Resource(
                resource["type"], resource["name"], resource.get("index"), resource["values"]
            )

    def read_outputs(self) -> dict[str, Any]:
        """Return the values of the outputs, by name."""
        outputs = json.loads(self.run("output", "-json").stdout)
        return {name: output["value"] for name, output in outputs.items()}

    def _write_options(
        self, manifest: Mapping[str, Any] | None, variables: dict[str, Any]
    ) -> list[str]:
        """Write a manifest and the variables to files, and return the options that name them."""
        path = self.folder / "manifest.json"
        path.write_text(json.dumps(manifest), "utf-8")
        defaults = {"project": PROJECT, "region": REGION, "firestore_location": REGION}
        return self._write_variable_options({**defaults, "manifest": str(path), **variables})

    def _write_variable_options(self, variables: dict[str, Any]) -> list[str]:
        path = self.folder / "variables.tfvars.json"
        path.write_text(json.dumps(variables), "utf-8")
        return ["-input=false", f"-var-file={path}"]


def _unwrap(value: Any) -> Any:
    """Replace a list with a single block by the block."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return {name: _unwrap(item) for name, item in value[0].items()}
    return value

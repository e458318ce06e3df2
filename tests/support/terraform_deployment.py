"""Runs Terraform on a copy of our files, with the fake provider and a local state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PROJECT: Final = "my-carrel-123"
REGION: Final = "europe-west1"
_OURS: Final = ("firestore.indexes.json", "infra/build/*.json", "infra/terraform/*.tf")
_LOCAL: Final = 'terraform {\n  backend "local" {}\n}\n'
_UNCHANGED: Final = {("no-op",), ("read",)}


@dataclass(frozen=True)
class Resource:
    """A resource of the state.

    Attributes:
        kind: Its type, such as `google_service_account`.
        name: What our files call it.
        key: Which of several it is, if there may be several.
        values: Its attributes and blocks.
    """

    kind: str
    name: str
    key: str | int | None
    values: dict[str, Any]

    @property
    def block(self) -> dict[str, Any]:
        """The values, with single blocks taken out of their lists."""
        return {name: _only(value) for name, value in self.values.items()}


class Deployment:
    """A folder with our files and the state of Terraform.

    Attributes:
        folder: The folder.
        environment: What Terraform runs with.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Use this folder.

        Args:
            folder: Holds the files and the state.
            environment: What Terraform needs to find the provider.
        """
        self.folder = folder
        self.environment = {
            **os.environ,
            **environment,
            "TF_CLI_CONFIG_FILE": os.devnull,
            "CHECKPOINT_DISABLE": "1",
        }

    @classmethod
    def prepared(cls, folder: Path, environment: Mapping[str, str]) -> Self:
        """Copy our files to a folder, and initialize Terraform."""
        for path in (path for pattern in _OURS for path in ROOT.glob(pattern)):
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        (folder / "infra" / "terraform" / "backend_override.tf").write_text(_LOCAL, "utf-8")
        deployment = cls(folder, environment)
        deployment.run("init", "-input=false")
        return deployment

    def copied(self, folder: Path) -> Deployment:
        """Copy the deployment with its state to another folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Deployment(folder, self.environment)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Terraform."""
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
        self, manifest: Mapping[str, Any], *only: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Apply a manifest, or only some targets."""
        targets = [f"-target={address}" for address in only]
        return self.run("apply", "-auto-approve", *targets, *self._given(manifest, variables))

    def destroy(
        self, manifest: Mapping[str, Any], **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Destroy all resources that can be destroyed."""
        return self.run("destroy", "-auto-approve", *self._given(manifest, variables), check=False)

    def refusal(self, manifest: Mapping[str, Any] | None, variables: dict[str, Any]) -> str:
        """Return the error of a plan that fails, on one line."""
        arguments = self._given(manifest, {}) if manifest else []
        process = self.run("plan", *arguments, *self._set(variables), check=False)
        assert process.returncode == 1
        return " ".join(line.strip("│╷╵ ") for line in process.stderr.splitlines())

    def changes(self, manifest: Mapping[str, Any], **variables: Any) -> dict[str, list[str]]:
        """Return the actions of a plan by address: `create`, `update`, `delete`."""
        self.run("plan", "-out=plan", *self._given(manifest, variables))
        plan = json.loads(self.run("show", "-json", "plan").stdout)
        return {
            change["address"]: change["change"]["actions"]
            for change in plan["resource_changes"]
            if tuple(change["change"]["actions"]) not in _UNCHANGED
        }

    def resources(self) -> Iterator[Resource]:
        """Yield the resources in the state."""
        state = json.loads(self.run("show", "-json").stdout)
        for resource in state["values"]["root_module"]["resources"]:
            yield Resource(
                resource["type"], resource["name"], resource.get("index"), resource["values"]
            )

    def outputs(self) -> dict[str, Any]:
        """Return the outputs."""
        outputs = json.loads(self.run("output", "-json").stdout)
        return {name: output["value"] for name, output in outputs.items()}

    def _given(self, manifest: Mapping[str, Any] | None, variables: dict[str, Any]) -> list[str]:
        path = self.folder / "manifest.json"
        path.write_text(json.dumps(manifest), "utf-8")
        usual = {"project": PROJECT, "region": REGION, "firestore_location": REGION}
        return self._set({**usual, "manifest": str(path), **variables})

    def _set(self, variables: dict[str, Any]) -> list[str]:
        path = self.folder / "variables.tfvars.json"
        path.write_text(json.dumps(variables), "utf-8")
        return ["-input=false", f"-var-file={path}"]


def _only(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return {name: _only(item) for name, item in value[0].items()}
    return value

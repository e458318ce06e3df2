"""Runs Terraform, which creates all resources except the bucket that stores its state.

The state records which resources Terraform created. The manifest describes the functions to deploy,
and the variables describe the deployment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from infra.build.bundles import DIST
from infra.build.discovery import ROOT
from infra.cloud.deployment import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER: Final = ROOT / "infra" / "terraform"
_DOWNLOAD_URL: Final = "https://developer.hashicorp.com/terraform/install"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """The `terraform` program with one configuration and its state.

    Every method raises `ClickException` if Terraform is missing or fails. Terraform itself prints
    what is wrong, and checks its own version.

    Attributes:
        backend: The settings for `-backend-config`, which locate the state.
        folder: The folder of the configuration.
        variables: The file that describes the deployment.
        manifest: The file that describes the functions.
        environment: The program's environment variables. PATH locates the program.
    """

    backend: Mapping[str, str]
    folder: Path = FOLDER
    variables: Path = FILE
    manifest: Path = DIST / "manifest.json"
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def init(self) -> None:
        """Initialize the configuration. This can be repeated and never migrates the state."""
        backend = [f"-backend-config={name}={value}" for name, value in self.backend.items()]
        self._run("init", "-input=false", "-no-color", "-reconfigure", *backend)

    def apply(self, *targets: str, protect_data: bool = True) -> None:
        """Create or update all resources, or only `targets` and the resources that they need.

        If it fails, the state contains the resources created before that.

        Args:
            targets: The addresses of resources.
            protect_data: Whether databases, texts and secrets are protected from deletion.
        """
        self._change("apply", targets, protect_data=protect_data)

    def destroy(self, *targets: str, protect_data: bool = True) -> None:
        """Delete all resources, or only `targets` and the resources that depend on them."""
        self._change("destroy", targets, protect_data=protect_data)

    def read_outputs(self) -> dict[str, Any]:
        """Read the configuration's outputs, by name."""
        outputs = self._read_json("output")
        return {name: output["value"] for name, output in outputs.items()}

    def read_resources(self) -> dict[str, dict[str, Any]]:
        """Read the attributes of all resources in the state, by address."""
        root = self._read_json("show").get("values", {}).get("root_module", {})
        return {resource["address"]: resource["values"] for resource in root.get("resources", [])}

    def _change(self, command: str, targets: tuple[str, ...], *, protect_data: bool) -> None:
        self._run(
            command,
            "-input=false",
            "-no-color",
            "-compact-warnings",
            "-auto-approve",
            "-lock-timeout=5m",
            f"-var-file={self.variables.resolve()}",
            f"-var=manifest={self.manifest.resolve()}",
            f"-var=protect_data={json.dumps(protect_data)}",
            *(f"-target={address}" for address in targets),
        )

    def _read_json(self, command: str) -> dict[str, Any]:
        with tempfile.TemporaryFile("w+") as output:
            self._run(command, "-json", "-no-color", output=output.fileno())
            output.seek(0)
            content: dict[str, Any] = json.load(output)
        return content

    def _run(self, *arguments: str, output: int | None = None) -> None:
        """Run Terraform to its end.

        Args:
            arguments: The command and its options.
            output: The file descriptor for what Terraform prints. By default, this process's own.
        """
        program = shutil.which("terraform", path=self.environment.get("PATH", ""))
        if program is None:
            raise click.ClickException(f"Terraform is missing. Install it from {_DOWNLOAD_URL}")
        with subprocess.Popen(  # noqa: S603 - terraform
            [program, f"-chdir={self.folder}", *arguments],
            env={**self.environment, "TF_IN_AUTOMATION": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
        ) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()  # Ctrl-C reaches Terraform too, which must finish writing its state
                raise
        if code:
            raise click.ClickException(
                f"terraform {arguments[0]} failed ({code}); its own message is above. Fix the"
                " problem and run the same command again. It continues where it stopped."
            )

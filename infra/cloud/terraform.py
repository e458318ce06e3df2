"""Runs Terraform, which creates all resources except the bucket that stores its state.

The state records which resources Terraform created. The manifest describes the functions to deploy,
and the variables describe the deployment.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from infra.build.discovery import ROOT
from infra.cloud.errors import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FOLDER: Final = ROOT / "infra" / "terraform"
MIN_VERSION: Final = (1, 9)
"""The oldest version that runs the configuration, as `versions.tf` says."""
DOWNLOAD_URL: Final = "https://developer.hashicorp.com/terraform/install"
_APPLY_OPTIONS: Final = (
    "-input=false",
    "-no-color",
    "-compact-warnings",
    "-auto-approve",
    "-lock-timeout=5m",
)
_LOCKED: Final = re.compile(r"Error acquiring the state lock.*?ID:\s+(\S+)", re.DOTALL)
"""Terraform's error if another run holds the lock. The group is the id of the lock."""
_MAX_ERROR_CHARACTERS: Final = 4_000
"""A message quotes at most this many characters of Terraform's errors, the last ones."""


class StateLocked(CommandFailed):
    """Another run holds the lock on the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """The `terraform` program with one configuration and its state.

    Every method raises `CommandFailed` if Terraform is missing or fails, and `StateLocked` if
    another run holds the lock on the state.

    Attributes:
        folder: The folder of the configuration.
        backend: The settings for `-backend-config`, which locate the state.
        environment: The program's environment variables. PATH locates the program.
    """

    folder: Path = FOLDER
    backend: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def require_version(self) -> str:
        """Return the version of Terraform.

        Raises:
            CommandFailed: Terraform is missing or too old.
        """
        version = str(json.loads(self._read_output("version", "-json"))["terraform_version"])
        parts = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if parts < MIN_VERSION:
            minimum = ".".join(map(str, MIN_VERSION))
            raise CommandFailed(
                f"Terraform {version} is too old: {minimum} or newer is required."
                f" Install it from {DOWNLOAD_URL}"
            )
        return version

    def init(self) -> None:
        """Initialize the configuration. This can be repeated and never migrates the state."""
        backend = [f"-backend-config={name}={value}" for name, value in self.backend.items()]
        self._run("init", "-input=false", "-no-color", "-reconfigure", *backend)

    def apply(self, variables: Path, manifest: Path, targets: Sequence[str] = ()) -> None:
        """Create or update all resources, or only `targets` and the resources that they need.

        Raises:
            CommandFailed: Terraform failed. The state contains the resources created before that.
        """
        self._run(
            "apply",
            *_APPLY_OPTIONS,
            *_format_inputs(variables, manifest),
            *_format_targets(targets),
        )

    def destroy(self, variables: Path, manifest: Path, targets: Sequence[str] = ()) -> None:
        """Delete all resources, or only `targets` and the resources that depend on them."""
        self._run(
            "destroy",
            *_APPLY_OPTIONS,
            *_format_inputs(variables, manifest),
            *_format_targets(targets),
        )

    def format_import_command(
        self, variables: Path, manifest: Path, address: str, resource_id: str
    ) -> str:
        """Format the shell command that imports an existing resource into the state."""
        inputs = [*_format_inputs(variables, manifest), address, resource_id]
        return shlex.join(["terraform", f"-chdir={self.folder}", "import", *inputs])

    def read_outputs(self) -> dict[str, Any]:
        """Read the configuration's outputs, by name."""
        outputs = json.loads(self._read_output("output", "-json", "-no-color"))
        return {name: output["value"] for name, output in outputs.items()}

    def list_addresses(self) -> list[str]:
        """List the addresses of all resources in the state."""
        state = json.loads(self._read_output("show", "-json", "-no-color"))
        root = state.get("values", {}).get("root_module", {})
        return [resource["address"] for resource in root.get("resources", [])]

    def _read_output(self, *arguments: str) -> str:
        """Run a command that changes nothing, and return what it prints."""
        with tempfile.TemporaryFile("w+") as output:
            self._run(*arguments, output=output.fileno())
            output.seek(0)
            return output.read()

    def _run(self, *arguments: str, output: int | None = None) -> None:
        """Run Terraform to its end.

        Args:
            arguments: The command and its options.
            output: The file descriptor for what Terraform prints. By default, this process's own.
        """
        program = shutil.which("terraform", path=self.environment.get("PATH", ""))
        if program is None:
            raise CommandFailed(f"Terraform is missing. Install it from {DOWNLOAD_URL}")
        with tempfile.TemporaryFile("w+") as errors:
            with _defer_interrupt():
                process = subprocess.Popen(  # noqa: S603 - terraform
                    [program, f"-chdir={self.folder}", *arguments],
                    env={**self.environment, "TF_IN_AUTOMATION": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                )
                code = process.wait()
            errors.seek(0)
            _raise_failure(arguments[0], code, errors.read())


def _format_inputs(variables: Path, manifest: Path) -> list[str]:
    return [f"-var-file={variables.resolve()}", f"-var=manifest={manifest.resolve()}"]


def _format_targets(addresses: Sequence[str]) -> list[str]:
    return [f"-target={address}" for address in addresses]


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block instead of inside it.

    Ctrl-C reaches Terraform too, which must finish writing its state before this process ends.
    """
    interrupts: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if interrupts:
        raise KeyboardInterrupt


def _raise_failure(command: str, code: int, errors: str) -> None:
    """Raise an error unless the exit code is 0."""
    if not code:
        return
    if lock := _LOCKED.search(errors):
        raise StateLocked(
            "Another run is changing this deployment, or a run of Terraform died. If no other run"
            f" is active: terraform -chdir=infra/terraform force-unlock {lock[1]}"
        )
    output = errors[-_MAX_ERROR_CHARACTERS:].strip()
    raise CommandFailed(f"terraform {command} failed ({code}).\n{output}")

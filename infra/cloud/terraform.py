"""Terraform, run as a program: it makes everything but the bucket that holds its own state."""

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
from infra.cloud.failures import NotDone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FOLDER: Final = ROOT / "infra" / "terraform"
LEAST: Final = (1, 9)
GET_IT: Final = "https://developer.hashicorp.com/terraform/install"
_CHANGE: Final = (
    "-input=false",
    "-no-color",
    "-compact-warnings",
    "-auto-approve",
    "-lock-timeout=5m",
)
_LOCKED: Final = re.compile(r"Error acquiring the state lock.*?ID:\s+(\S+)", re.DOTALL)
_LAST_WORDS: Final = 4_000


class Locked(NotDone):
    """Another run holds the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """One configuration with its state.

    Attributes:
        folder: Where the configuration is.
        backend: Where its state is: what `-backend-config` says.
        environment: What the program runs with; its PATH finds it.
    """

    folder: Path = FOLDER
    backend: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def version(self) -> str:
        """Its version.

        Raises:
            NotDone: It is missing, or too old.
        """
        said = json.loads(self._answer("version", "-json"))["terraform_version"]
        found = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
        if found < LEAST:
            wanted = ".".join(map(str, LEAST))
            raise NotDone(f"Terraform {said} is too old: {wanted} is needed. Next: {GET_IT}")
        return str(said)

    def init(self) -> None:
        """Get ready; again and again does no harm, and no state is ever moved."""
        backend = [f"-backend-config={name}={value}" for name, value in self.backend.items()]
        self._run("init", "-input=false", "-no-color", "-reconfigure", *backend)

    def apply(self, variables: Path, manifest: Path, targets: Sequence[str] = ()) -> None:
        """Make what is described, or these parts of it and what they need.

        Raises:
            NotDone: It failed. What it had made by then stands in its state.
        """
        self._run("apply", *_CHANGE, *_inputs(variables, manifest), *_targets(targets))

    def destroy(self, variables: Path, manifest: Path, targets: Sequence[str] = ()) -> None:
        """Delete all that it made, or these parts of it and what needs them."""
        self._run("destroy", *_CHANGE, *_inputs(variables, manifest), *_targets(targets))

    def importing(self, variables: Path, manifest: Path, address: str, found: str) -> str:
        """The command that takes over what is there already, for a person's shell."""
        inputs = [*_inputs(variables, manifest), address, found]
        return shlex.join(["terraform", f"-chdir={self.folder}", "import", *inputs])

    def outputs(self) -> dict[str, Any]:
        """What the configuration says of what it made."""
        said = json.loads(self._answer("output", "-json", "-no-color"))
        return {name: output["value"] for name, output in said.items()}

    def addresses(self) -> list[str]:
        """Everything in its state."""
        state = json.loads(self._answer("show", "-json", "-no-color"))
        root = state.get("values", {}).get("root_module", {})
        return [each["address"] for each in root.get("resources", [])]

    def _answer(self, *arguments: str) -> str:
        """What a command that changes nothing prints."""
        with tempfile.TemporaryFile("w+") as said:
            self._run(*arguments, output=said.fileno())
            said.seek(0)
            return said.read()

    def _run(self, *arguments: str, output: int | None = None) -> None:
        program = shutil.which("terraform", path=self.environment.get("PATH", ""))
        if program is None:
            raise NotDone(f"Terraform is missing. Next: {GET_IT}")
        with tempfile.TemporaryFile("w+") as errors:
            with _interrupt_deferred():
                process = subprocess.Popen(  # noqa: S603 - terraform
                    [program, f"-chdir={self.folder}", *arguments],
                    env={**self.environment, "TF_IN_AUTOMATION": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                )
                code = process.wait()
            errors.seek(0)
            _judge(arguments[0], code, errors.read())


def _inputs(variables: Path, manifest: Path) -> list[str]:
    return [f"-var-file={variables.resolve()}", f"-var=manifest={manifest.resolve()}"]


def _targets(addresses: Sequence[str]) -> list[str]:
    return [f"-target={address}" for address in addresses]


@contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block rather than in it.

    Ctrl-C reaches Terraform too. Left alone before it is done, it would lose its state.
    """
    interrupts: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if interrupts:
        raise KeyboardInterrupt


def _judge(command: str, code: int, errors: str) -> None:
    if not code:
        return
    if locked := _LOCKED.search(errors):
        raise Locked(
            "Somebody else changes this deployment, or a run of Terraform died. If nobody does:"
            f" terraform -chdir=infra/terraform force-unlock {locked[1]}"
        )
    raise NotDone(f"terraform {command} failed ({code}).\n{errors[-_LAST_WORDS:].strip()}")

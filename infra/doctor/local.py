"""The doctor's checks of this machine: programs for local runs, their data, and the gateway.

The embedding model is imported late, so that the first checks appear fast.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx2

from infra.doctor.check import Check, CheckResult, CheckStatus, failed, passed
from infra.folders import PROGRAMS, run_command
from infra.local import local_database
from infra.local.emulator_daemon import StateFolder
from infra.local.emulator_programs import EmulatorMissing, find_emulator, get_java_version
from infra.local.processes import is_listening
from shared.core.installation import carrel, carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.core.settings import Settings

_MIN_PYTHON: Final = (3, 11, 7)
"""The oldest version of Python that Carrel supports, as `pyproject.toml` says."""
_TIMEOUT_SECONDS: Final = 5.0
"""The gateway on this machine answers well within this time."""
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Machine:
    """The parameters of the checks of this machine.

    Attributes:
        environment: The environment variables, which locate programs.
        port: The port of the gateway.
        state: The folder with the data of local runs.
        programs: The folder of programs that Carrel fetched.
        emulator_port: The port that a new database would use.
        python: The version of Python.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    port: int = 8080
    state: Path = local_database.STATE
    programs: Path = PROGRAMS
    emulator_port: int = field(default_factory=local_database.get_emulator_port)
    python: tuple[int, ...] = sys.version_info[:3]


def _check_python(machine: Machine) -> CheckResult:
    version = ".".join(map(str, machine.python))
    if machine.python < _MIN_PYTHON:
        minimum = ".".join(map(str, _MIN_PYTHON))
        message = f"{version} is too old: {minimum} or newer is required"
        return failed(message, "make PYTHON=/path/to/python3.13 run")
    return passed(version)


def _check_emulator(machine: Machine) -> CheckResult:
    try:
        command = find_emulator(machine.environment, machine.programs)
    except EmulatorMissing as error:
        return failed(str(error), run_command())
    archive = command[command.index("-cp") + 1]
    return passed(f"{archive}, on Java {get_java_version(command[0])}")


def _check_state(machine: Machine) -> CheckResult:
    """Check that the state folder is writable or, before the first run, can be created."""
    path = next(path for path in (machine.state, *machine.state.parents) if path.exists())
    command = f"CARREL_STATE=/another/folder {run_command()}"
    if not path.is_dir():
        return failed(f"{path} is a file, not a folder", command)
    if not os.access(path, os.W_OK):
        return failed(f"{path} is not writable", command)
    return passed(f"{machine.state}{'' if machine.state.exists() else ' (not created yet)'}")


def _check_database(machine: Machine) -> CheckResult:
    if host := StateFolder(machine.state).get_address():
        return passed(f"runs at {host}")
    if is_listening(f"127.0.0.1:{machine.emulator_port}"):
        message = f"another program listens on port {machine.emulator_port}"
        return failed(message, f"EMULATOR_PORT=8787 {run_command()}")
    return passed(f"not running; port {machine.emulator_port} is free")


def _check_contents(machine: Machine) -> CheckResult:
    """Check that there is data, which is saved or at least in a running database."""
    state = StateFolder(machine.state)
    if state.get_saved_at():
        return passed(f"saved in {state.data}")
    if state.get_address():
        return passed("not saved yet: the database saves every five minutes")
    return failed("the knowledge base is empty", f"{run_command()}, which loads a sample")


def _check_gateway(machine: Machine) -> CheckResult:
    """Check that a healthy gateway of Carrel answers on the port."""
    url = f"http://127.0.0.1:{machine.port}/health"
    try:
        response = httpx2.get(url, timeout=_TIMEOUT_SECONDS)
    except httpx2.TransportError:
        return failed(f"nothing answers on port {machine.port}", run_command())
    if response.status_code == _OK and '"ok"' in response.text:
        return passed(f"answers on port {machine.port}")
    if '"parts"' in response.text:
        return failed(f"it is not healthy: {response.text}", f"stop it, then {run_command()}")
    message = f"another program listens on port {machine.port}"
    return failed(message, f"{run_command('--port', '9090')}, then {carrel('doctor --port 9090')}")


def _check_embedding(_: Machine) -> CheckResult:
    from shared.core.settings import Settings

    return asyncio.run(embed_sample(Settings()))


async def embed_sample(settings: Settings) -> CheckResult:
    """Check that the configured model embeds a short text."""
    from shared.ai.embedding import Purpose
    from shared.runtime.context import App

    app = App(settings)
    try:
        [vector] = await app.embedder.embed(["Does it work?"], Purpose.QUERY)
        return passed(f"{app.embedder.model} returns vectors of {len(vector)} dimensions")
    finally:
        await app.aclose()


def _make_program_check(name: str, purpose: str) -> Check[Machine]:
    """Make the check of a program that only one purpose needs."""

    def run(machine: Machine) -> CheckResult:
        path = shutil.which(name, path=machine.environment.get("PATH", ""))
        if path:
            return passed(path)
        return CheckResult(CheckStatus.OPTIONAL, f"missing; only {purpose} needs it")

    return Check(name, run)


CHECKS: Final[tuple[Check[Machine], ...]] = (
    Check("Python", _check_python),
    Check("Firestore emulator", _check_emulator),
    Check("state folder", _check_state),
    Check("local database", _check_database),
    Check("knowledge", _check_contents),
    Check("gateway", _check_gateway),
    Check("embedding model", _check_embedding),
    _make_program_check("node", "some of the tests"),
    _make_program_check("terraform", f"`{carrel_deploy()}`"),
    _make_program_check("gcloud", "signing in to Google Cloud"),
)

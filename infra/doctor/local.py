"""The checks of this machine: the programs that local runs need, their data, and the gateway."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx2

from infra.doctor.check import Check, CheckResult, CheckStatus, failed, passed
from infra.local import local_database
from infra.local.emulator import EmulatorMissing, find_emulator
from infra.local.emulator_daemon import StateFolder
from infra.local.processes import is_listening

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.core.settings import Settings

_MIN_PYTHON: Final = (3, 11, 7)
_MAIN_CLASS_FILE: Final = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"
_CLASS_VERSION_OFFSET: Final = 44
"""The major version of a class file is the Java version plus this number (JVM specification,
section 4.1)."""
_GET_JAVA: Final = "install a newer Java, and set JAVA_HOME to it"
_TIMEOUT_SECONDS: Final = 5.0
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Machine:
    """The parameters of the checks of this machine.

    Attributes:
        environment: The environment variables, which locate programs.
        port: The port of the gateway.
        state: The folder with the data of local runs.
        emulator_port: The port of a database that starts.
        python: The version of Python.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    port: int = 8080
    state: Path = local_database.STATE
    emulator_port: int = field(default_factory=local_database.emulator_port)
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
        command = find_emulator(machine.environment)
    except EmulatorMissing as error:
        first_line, _, instructions = str(error).partition("\n")
        return failed(first_line, instructions.strip())
    java = command[0]
    archive = command[command.index("-cp") + 1]
    required, version = _read_required_java(archive), _get_java_version(java)
    if version < required:
        return failed(f"{archive} needs Java {required}, but {java} is Java {version}", _GET_JAVA)
    return passed(f"{archive}, on Java {version}")


def _read_required_java(archive: str) -> int:
    with zipfile.ZipFile(archive) as jar:
        header = jar.read(_MAIN_CLASS_FILE)[:8]
    return int.from_bytes(header[6:8], "big") - _CLASS_VERSION_OFFSET


def _get_java_version(java: str) -> int:
    process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - Java
    version = re.search(r'version "(?:1\.)?(\d+)', process.stderr)
    return int(version[1]) if version else 0


def _check_state(machine: Machine) -> CheckResult:
    path = next(path for path in (machine.state, *machine.state.parents) if path.exists())
    command = "CARREL_STATE=/another/folder make run"
    if not path.is_dir():
        return failed(f"{path} is a file, not a folder", command)
    if not os.access(path, os.W_OK):
        return failed(f"{path} is not writable", command)
    return passed(f"{machine.state}{'' if machine.state.exists() else ' (not created yet)'}")


def _check_database(machine: Machine) -> CheckResult:
    if host := StateFolder(machine.state).serving_address():
        return passed(f"runs at {host}")
    if is_listening(f"127.0.0.1:{machine.emulator_port}"):
        message = f"another program listens on port {machine.emulator_port}"
        return failed(message, "EMULATOR_PORT=8787 make run")
    return passed(f"not running; port {machine.emulator_port} is free")


def _check_contents(machine: Machine) -> CheckResult:
    state = StateFolder(machine.state)
    if list((state.data / "(default)").glob("[0-9]*")):
        return passed(f"saved in {state.data}")
    if state.serving_address():
        return passed("not saved yet: the database saves every five minutes")
    return failed("the knowledge base is empty", "make run, which loads a sample")


def _check_gateway(machine: Machine) -> CheckResult:
    url = f"http://127.0.0.1:{machine.port}/health"
    try:
        response = httpx2.get(url, timeout=_TIMEOUT_SECONDS)
    except httpx2.TransportError:
        return failed(f"nothing answers on port {machine.port}", "make run")
    if response.status_code == _OK and '"ok"' in response.text:
        return passed(f"answers on port {machine.port}")
    if '"parts"' in response.text:
        return failed(f"it is not healthy: {response.text}", "stop it, then make run")
    message = f"another program listens on port {machine.port}"
    return failed(message, "make run ARGS='--port 9090', then carrel doctor --port 9090")


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
    _make_program_check("terraform", "`carrel deploy`"),
    _make_program_check("gcloud", "signing in to Google Cloud"),
)

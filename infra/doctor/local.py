"""What a run on this machine needs: there, missing, or only wished for."""

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

from infra.doctor.check import Check, Finding, State, ok, wrong
from infra.local import local_database
from infra.local.emulator import EmulatorMissing, find_emulator
from infra.local.emulator_daemon import StateFolder
from infra.local.processes import answers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shared.core.settings import Settings

_LEAST_PYTHON: Final = (3, 11, 7)
_MAIN: Final = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"
_JAVA_OF_CLASS: Final = 44
"""What a class file's version is above that of the Java it is made for (JVM specification, 4.1)."""
_GET_JAVA: Final = "get a newer Java, and set JAVA_HOME to it"
_SECONDS: Final = 5.0
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as a local run finds it.

    Attributes:
        environment: Where programs are looked for.
        port: Where the gateway listens.
        state: What local runs left behind.
        emulator_port: Where the database listens, when it starts.
        python: The version of Python.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    port: int = 8080
    state: Path = local_database.STATE
    emulator_port: int = field(default_factory=local_database.emulator_port)
    python: tuple[int, ...] = sys.version_info[:3]


def _python(machine: Machine) -> Finding:
    version = ".".join(map(str, machine.python))
    if machine.python < _LEAST_PYTHON:
        least = ".".join(map(str, _LEAST_PYTHON))
        return wrong(
            f"{version} is too old: {least} is needed", "make PYTHON=/path/to/python3.13 run"
        )
    return ok(version)


def _emulator(machine: Machine) -> Finding:
    try:
        command = find_emulator(machine.environment)
    except EmulatorMissing as error:
        first, _, how = str(error).partition("\n")
        return wrong(first, how.strip())
    java, archive = command[0], command[command.index("-cp") + 1]
    needed, version = _needed_java(archive), _java_version(java)
    if version < needed:
        return wrong(f"{archive} needs Java {needed}, and {java} is {version}", _GET_JAVA)
    return ok(f"{archive}, on Java {version}")


def _needed_java(archive: str) -> int:
    with zipfile.ZipFile(archive) as held:
        head = held.read(_MAIN)[:8]
    return int.from_bytes(head[6:8], "big") - _JAVA_OF_CLASS


def _java_version(java: str) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - Java
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found[1]) if found else 0


def _state(machine: Machine) -> Finding:
    place = next(path for path in (machine.state, *machine.state.parents) if path.exists())
    another = "CARREL_STATE=/another/folder make run"
    if not place.is_dir():
        return wrong(f"{place} is a file, not a folder", another)
    if not os.access(place, os.W_OK):
        return wrong(f"{place} cannot be written to", another)
    return ok(f"{machine.state}{'' if machine.state.exists() else ' (not made yet)'}")


def _database(machine: Machine) -> Finding:
    if host := StateFolder(machine.state).serving():
        return ok(f"serves at {host}")
    if answers(f"127.0.0.1:{machine.emulator_port}"):
        said = f"somebody else listens on port {machine.emulator_port}"
        return wrong(said, "EMULATOR_PORT=8787 make run")
    return ok(f"not running; port {machine.emulator_port} is free")


def _contents(machine: Machine) -> Finding:
    state = StateFolder(machine.state)
    if list((state.data / "(default)").glob("[0-9]*")):
        return ok(f"kept in {state.data}")
    if state.serving():
        return ok("not on disk yet: it is saved every five minutes")
    return wrong("nothing was put in yet", "make run, which loads a sample")


def _gateway(machine: Machine) -> Finding:
    url = f"http://127.0.0.1:{machine.port}/health"
    try:
        response = httpx2.get(url, timeout=_SECONDS)
    except httpx2.TransportError:
        return wrong(f"nothing answers on port {machine.port}", "make run")
    if response.status_code == _OK and '"ok"' in response.text:
        return ok(f"answers on port {machine.port}")
    if '"parts"' in response.text:
        return wrong(f"it is ill: {response.text}", "make run, once more")
    return wrong(
        f"somebody else listens on port {machine.port}", "make run ARGS='--port 9090', and --port"
    )


def _embedding(_: Machine) -> Finding:
    from shared.core.settings import Settings as Now

    return asyncio.run(embeds(Now()))


async def embeds(settings: Settings) -> Finding:
    """Embed one text, as tools and jobs do."""
    from shared.ai.embedding import Purpose
    from shared.runtime.context import App

    app = App(settings)
    try:
        [vector] = await app.embedder.embed(["Does it work?"], Purpose.QUERY)
        return ok(f"{app.embedder.model} gives {len(vector)} numbers")
    finally:
        await app.aclose()


def _program(name: str, use: str) -> Check[Machine]:
    def look(machine: Machine) -> Finding:
        path = shutil.which(name, path=machine.environment.get("PATH", ""))
        return ok(path) if path else Finding(State.OPTIONAL, f"missing; only {use} needs it")

    return Check(name, look)


CHECKS: Final[tuple[Check[Machine], ...]] = (
    Check("Python", _python),
    Check("Firestore emulator", _emulator),
    Check("state folder", _state),
    Check("local database", _database),
    Check("knowledge", _contents),
    Check("gateway", _gateway),
    Check("embedding model", _embedding),
    _program("node", "some of the tests"),
    _program("terraform", "`carrel deploy`"),
    _program("gcloud", "signing in to Google Cloud"),
)

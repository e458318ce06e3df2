"""The checks of `carrel doctor`: programs for local runs, their data, and the gateway.

The embedding model and the database are imported late, so that the first checks appear fast.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import httpx2

from infra.folders import run_command
from infra.local import local_database
from infra.local.state_disk import find_remote_disk, find_synchronised_folder, read_mounts
from infra.terminal import make_printable
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unusable
from shared.core.installation import carrel, carrel_deploy
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from infra.local.state_disk import Mount
    from shared.core.settings import Settings
    from shared.firestore.database import Database

    ResultT = TypeVar("ResultT")

_MIN_PYTHON: Final = (3, 11, 7)
"""The oldest version of Python that Carrel supports, as `pyproject.toml` says."""
_TIMEOUT_SECONDS: Final = 5.0
"""The gateway on this machine answers well within this time."""
_LEAST_FREE_BYTES: Final = 100_000_000
"""With less than this, the disk is about to be full."""
_OK: Final = 200


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WRONG = "wrong"
    """There is a problem, which the next command solves."""
    OPTIONAL = "optional"
    """Something is missing that only some users need."""


class CheckResult(NamedTuple):
    """The result of a check."""

    status: CheckStatus
    message: str
    next_command: str = ""


class Check(NamedTuple):
    """A check of one component of an installation."""

    name: str
    run: Callable[[Machine], CheckResult]


def passed(message: str) -> CheckResult:
    """Return the result of a check that passed."""
    return CheckResult(CheckStatus.OK, message)


def failed(message: str, next_command: str) -> CheckResult:
    """Return the result of a check that failed, with the command to run next."""
    return CheckResult(CheckStatus.WRONG, message, next_command)


def run_check(check: Check, machine: Machine) -> CheckResult:
    """Run a check. An expected error is a failure of the check."""
    try:
        return check.run(machine)
    except Unusable as error:
        return failed(error.message, f"that, then {carrel('doctor')}")
    except CarrelError as error:
        return failed(error.message, f"wait some minutes, then {carrel('doctor')}")


@dataclass(frozen=True, slots=True)
class Machine:
    """The parameters of the checks of this machine.

    Attributes:
        environment: The environment variables, which locate programs.
        port: The port of the gateway.
        state: The folder with the data of local runs.
        python: The version of Python.
        mounts: The file systems.
        measure_free_bytes: Returns what is free on the disk of a folder.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    port: int = 8080
    state: Path = local_database.STATE
    python: tuple[int, ...] = sys.version_info[:3]
    mounts: Sequence[Mount] = field(default_factory=read_mounts)
    measure_free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free


def _check_python(machine: Machine) -> CheckResult:
    version = ".".join(map(str, machine.python))
    if machine.python < _MIN_PYTHON:
        minimum = ".".join(map(str, _MIN_PYTHON))
        message = f"{version} is too old: {minimum} or newer is required"
        return failed(message, "make PYTHON=/path/to/python3.13 run")
    return passed(version)


def _check_state(machine: Machine) -> CheckResult:
    """Check that the state folder can hold the databases or, before the first run, be created."""
    path = next(path for path in (machine.state, *machine.state.parents) if path.exists())
    command = f"CARREL_STATE=/another/folder {run_command()}"
    if not path.is_dir():
        return failed(f"{path} is a file, not a folder", command)
    if not os.access(path, os.W_OK):
        return failed(f"{path} is not writable", command)
    if kind := find_remote_disk(path, machine.mounts):
        return failed(f"{path} is on a drive of a network or of another system ({kind})", command)
    if folder := find_synchronised_folder(machine.state):
        return failed(f"{machine.state} is in {folder}, which a program synchronises", command)
    if (free := machine.measure_free_bytes(path)) < _LEAST_FREE_BYTES:
        return failed(f"only {free // 1_000_000} MB are free on its disk", "free some space")
    return passed(f"{machine.state}{'' if machine.state.exists() else ' (not created yet)'}")


def _check_files(machine: Machine) -> CheckResult:
    """Check that the databases can be written, and look for damage in all of them."""
    from infra.local.embedded_firestore.errors import DatabaseFileError
    from infra.local.embedded_firestore.files import check_file

    files = sorted((machine.state / "databases").glob("*/*.sqlite"))
    for path in files:
        if os.access(path.parent, os.W_OK) and not os.access(path, os.W_OK):
            return failed(f"{path} is not writable", f"chmod u+w {shlex.quote(str(path))}")
        try:
            check_file(path)
        except DatabaseFileError as error:
            raise Unusable(str(error)) from error
    return passed(f"{format_count(len(files), 'database')}, whole")


def _check_knowledge(_: Machine) -> CheckResult:
    """Check that the database can be opened, and that it has texts."""
    if host := os.environ.get("FIRESTORE_EMULATOR_HOST"):
        where = f"the emulator at {host}"
    elif local_database.KNOWLEDGE.exists():
        where = str(local_database.KNOWLEDGE)
    else:
        return failed("there is no database yet", f"{run_command()}, which loads a sample")
    from shared.knowledge.source_repository import Sources

    count = asyncio.run(_read(lambda database: Sources(database).count()))
    if not count:
        return failed("the knowledge base is empty", f"{run_command()}, which loads a sample")
    return passed(f"{format_count(count, 'source')} in {where}")


def _check_folders(_: Machine) -> CheckResult:
    """Check that the followed folders are there, and that all of them could be read."""
    from shared.knowledge.followed_folders import load_folders

    roots = asyncio.run(_read(load_folders))
    problems = [f"{root.path}: {problem}" for root in roots for problem in root.list_problems()]
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return failed(make_printable(f"{problems[0]}{others}"), carrel("ingest --list"))
    return passed(f"follows {format_count(sum(root.watched for root in roots), 'folder')}")


async def _read(read: Callable[[Database], Awaitable[ResultT]]) -> ResultT:
    from shared.core.meter import Meter
    from shared.core.settings import KNOWLEDGE_DATABASE, Settings
    from shared.firestore.connection import Connection
    from shared.firestore.database import Database

    connection = Connection(Settings().google_cloud_project, KNOWLEDGE_DATABASE)
    try:
        return await read(Database(connection, Meter(), read_only=True))
    finally:
        await connection.aclose()


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

    return asyncio.run(_embed_sample(Settings()))


async def _embed_sample(settings: Settings) -> CheckResult:
    """Check that the configured model embeds a short text."""
    from shared.ai.embedding import Purpose
    from shared.runtime.context import App

    app = App(settings)
    try:
        [vector] = await app.embedder.embed(["Does it work?"], Purpose.QUERY)
        return passed(f"{app.embedder.model} returns vectors of {len(vector)} dimensions")
    finally:
        await app.aclose()


def _check_language_model(_: Machine) -> CheckResult:
    from shared.core.settings import Settings

    settings = Settings()
    address = settings.generation_base_url
    if settings.generation_provider == "openai" and address:
        try:
            httpx2.get(address, timeout=_TIMEOUT_SECONDS)
        except httpx2.TransportError:
            return failed(f"nothing answers at {address}", f"start it, then {carrel('doctor')}")
    return asyncio.run(_write_card(settings))


async def _write_card(settings: Settings) -> CheckResult:
    """Check that the configured language model writes a knowledge card."""
    from functions.jobs.cards.generated import probe
    from shared.core.meter import Meter
    from shared.runtime.context import App

    app = App(settings)
    try:
        if app.generator is None:
            return passed("none; cards and names of clusters are made of the texts")
        meter = Meter()
        await probe(app.generator, meter)
    except (InvalidInput, PlatformFault) as error:
        return failed(error.message, "change the settings that begin with GENERATION_")
    else:
        tokens = meter.input_tokens + meter.output_tokens
        return passed(f"{app.generator.model} writes a card with {tokens} tokens")
    finally:
        await app.aclose()


def _make_program_check(name: str, purpose: str) -> Check:
    """Make the check of a program that only one purpose needs."""

    def run(machine: Machine) -> CheckResult:
        path = shutil.which(name, path=machine.environment.get("PATH", ""))
        if path:
            return passed(path)
        return CheckResult(CheckStatus.OPTIONAL, f"missing; only {purpose} needs it")

    return Check(name, run)


CHECKS: Final[tuple[Check, ...]] = (
    Check("Python", _check_python),
    Check("state folder", _check_state),
    Check("files", _check_files),
    Check("knowledge", _check_knowledge),
    Check("folders", _check_folders),
    Check("gateway", _check_gateway),
    Check("embedding model", _check_embedding),
    Check("language model", _check_language_model),
    _make_program_check("node", "some of the tests"),
    _make_program_check("terraform", f"`{carrel_deploy()}`"),
    _make_program_check("gcloud", "signing in to Google Cloud"),
)

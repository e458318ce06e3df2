"""`carrel up`: starts the database and the gateway on this machine, and loads the sample."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

import click

from functions.gateway.auth.visitor import LOCAL_USER
from infra.file_lock import hold_lock, is_free
from infra.folders import run_command
from infra.local.local_database import (
    FILES,
    KNOWLEDGE,
    LOADED_SAMPLE,
    STATE,
    list_environment_variables,
    list_notes,
    open_local_database,
    protect_state,
    set_local_secrets,
)
from infra.local.processes import (
    GATEWAY,
    LOOPBACK,
    RUNS_JOBS,
    START_SECONDS,
    StartError,
    is_carrel,
    is_listening,
    make_checkout_program,
    serve,
)
from infra.local.running_gateways import get_log_file
from infra.local.welcome import format_welcome, get_origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from infra.local.processes import Program, ServerProcess

POLL_SECONDS: Final = 0.5
"""The pause between two checks that all processes of a local run are still running."""
_FILES_DELETED: Final = (
    f"{FILES} was deleted or moved while Carrel ran. If it was moved, put it back, and restart."
    " Without it, Carrel starts empty."
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a local run.

    Attributes:
        port: The gateway's port.
        functions: Whether each tool runs in its own process, as in the cloud.
        sample: Whether to load the sample knowledge base.
        sign_in: Whether to require credentials, as in the cloud.
        address: The IP address at which the gateway listens.
    """

    port: int
    functions: bool
    sample: bool
    sign_in: bool
    address: str = LOOPBACK


def run_locally(options: RunOptions) -> None:
    """Run Carrel until Ctrl-C or until one of its processes dies, then stop all of them."""
    for stop_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop_signal, _interrupt)
    _require_free_port(options.port)
    if not FILES.exists():
        _validate_settings(options)  # so that nothing is created
    with ExitStack() as stack:
        try:
            _run(stack, options)
        except KeyboardInterrupt:
            click.echo("\nStopping ...")


def _run(stack: ExitStack, options: RunOptions) -> None:
    """Start everything, print how to use it, and raise an error when a part dies.

    Closing the stack stops what runs.
    """
    for note in list_notes():
        click.echo(note)
    click.echo(_describe_database())
    protect_state()
    set_local_secrets()
    if options.sample and not (_is_embedded() and LOADED_SAMPLE.exists()):
        _check_start(options)
        _load_sample()
    gateway, describe_dead_part = _serve(stack, options)
    click.echo(format_welcome(options.port, list_environment_variables(), sign_in=options.sign_in))
    with suppress(OSError):  # the first request begins the gateway's background work
        urlopen(f"{gateway.url}/health", timeout=START_SECONDS).close()  # noqa: S310 - loopback
    _watch(gateway, describe_dead_part)


def _load_sample() -> None:
    from infra.local.jobs import load_sample

    click.echo("Loading the sample knowledge base ...")
    if load_sample() and _is_embedded():
        LOADED_SAMPLE.touch()


def _is_embedded() -> bool:
    return "FIRESTORE_EMULATOR_HOST" not in os.environ


def _describe_database() -> str:
    if host := os.environ.get("FIRESTORE_EMULATOR_HOST"):
        return f"Using the emulator at {host}, which forgets everything when it ends ..."
    try:
        changed_at = datetime.fromtimestamp(KNOWLEDGE.stat().st_mtime).astimezone()
    except OSError:
        return f"Creating the database in {STATE} ..."
    return f"Opening the database in {STATE} (the data of {changed_at:%Y-%m-%d %H:%M}) ..."


def _serve(stack: ExitStack, options: RunOptions) -> tuple[ServerProcess, Callable[[], str]]:
    """Start the gateway and, with `functions`, the tools.

    Returns:
        The gateway, and a function that names a tool's process that has died, or returns an empty
        string if all are running.
    """
    environment = {**_build_environment(options), RUNS_JOBS: "true"}
    log = get_log_file(options.port)
    log.unlink(missing_ok=True)
    stack.enter_context(hold_lock(log))
    try:
        program, describe_dead_part = _prepare_gateway_program(stack, options, environment, log)
        gateway = serve(program, port=options.port, log=log, address=options.address)
        return stack.enter_context(gateway), describe_dead_part
    except StartError as error:
        _check_start(options)
        raise StartError(f"{error} See {log}.") from error


def _prepare_gateway_program(
    stack: ExitStack, options: RunOptions, environment: dict[str, str], log: Path
) -> tuple[Program, Callable[[], str]]:
    """Return the gateway's program, after starting the tools that it calls. See `_serve`."""
    if not options.functions:
        # Without processes of tools, there is none to name: `str()` is an empty string.
        return make_checkout_program(GATEWAY, environment), str
    from infra.build.discovery import tools
    from infra.local.tool_processes import serve_tools

    click.echo("Starting each tool in its own process ...")
    names = [tool.name for tool in tools()]
    local_tools = stack.enter_context(serve_tools(names, environment, log=log))
    return local_tools.make_gateway_program(environment), local_tools.describe_dead_tool


def _watch(gateway: ServerProcess, describe_dead_part: Callable[[], str]) -> None:
    """Wait until a part of the run dies.

    Raises:
        click.ClickException: A part died. The message says which.
    """
    while (code := _await_exit_code(gateway)) is None:
        if _is_embedded() and not KNOWLEDGE.exists():
            raise click.ClickException(_FILES_DELETED)
        if part := describe_dead_part():
            raise click.ClickException(f"{part} died. See its log in {STATE}. Restart to continue.")
    raise click.ClickException(f"The gateway ended ({code}). See its log in {STATE}.")


def _await_exit_code(gateway: ServerProcess) -> int | None:
    """Wait up to `POLL_SECONDS` for the gateway's exit code, and return None if it still runs."""
    try:
        return gateway.process.wait(timeout=POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _require_free_port(port: int) -> None:
    """Check that the gateway's port is free.

    Raises:
        click.ClickException: A program listens on the port. The message says which, and what to do.
    """
    if not is_listening(f"{LOOPBACK}:{port}"):
        return
    command = run_command("--port", str(port + 1))
    if not is_free(get_log_file(port)):
        raise click.ClickException(
            f"Carrel already runs here, at {get_origin(port)}/mcp. Use it, or stop it with Ctrl-C"
            f" in its window. To run another on the same data: {command}"
        )
    if is_carrel(port):
        message = f"A Carrel from another folder uses port {port}. To run this one beside it:"
    else:
        message = f"Another program uses port {port}. To run Carrel on another port:"
    raise click.ClickException(f"{message} {command}")


def _build_environment(options: RunOptions) -> dict[str, str]:
    """Build the variables of a local gateway, which override variables for a deployment."""
    user = "" if options.sign_in else LOCAL_USER
    return {"PUBLIC_URL": get_origin(options.port), "LOCAL_USER": user, "PUBLIC_ACCESS": "false"}


def _check_start(options: RunOptions) -> None:
    """Check what the gateway needs, because it reports problems only in its log.

    Called before a long load and after a failed start, because the imports take a second.

    Raises:
        CarrelError: The settings are not valid, or a database cannot be opened.
    """
    _validate_settings(options)
    open_local_database()


def _validate_settings(options: RunOptions) -> None:
    """Validate the settings of a local gateway.

    Raises:
        InvalidInput: The settings are not valid.
    """
    from functions.gateway.catalog import Catalog
    from shared.core.settings import Settings

    environment = _build_environment(options)
    settings = Settings(**{name.lower(): value for name, value in environment.items()})
    Catalog.load().apply_settings(settings)

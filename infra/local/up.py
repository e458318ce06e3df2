"""Everything at once on a laptop: the emulator, the sample, the gateway."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from functions.gateway.auth.visitor import LOCAL_USER
from functions.gateway.catalog import Catalog
from infra.build.discovery import tools
from infra.local.emulator import PROJECT
from infra.local.jobs import load_sample
from infra.local.local_database import (
    STATE,
    await_end,
    database,
    is_served,
    share_secret,
    variables,
)
from infra.local.processes import NotStarted, answers, in_checkout, serve
from infra.local.tool_processes import GATEWAY, serve_tools
from infra.local.welcome import origin, welcome
from shared.core.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from infra.local.processes import Program, Served


LOOK_SECONDS: Final = 0.5
"""How often to look whether the database still lives."""
_DELETED: Final = (
    f"{STATE} was deleted or moved while Carrel ran. What the database holds is written there anew:"
    " start again to go on with it, or delete the folder again to begin with nothing."
)


@dataclass(frozen=True, slots=True)
class Choices:
    """How to run.

    Attributes:
        port: Where the gateway listens.
        functions: Whether each tool is a process of its own, as in the cloud.
        sample: Whether to load the sample knowledge base.
        sign_in: Whether to let nobody in without a credential, as in the cloud.
    """

    port: int
    functions: bool
    sample: bool
    sign_in: bool


def up(choices: Choices) -> None:
    """Run until Ctrl-C, or until a part of it dies; then end everything that nobody else uses."""
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(end, _interrupt)
    _refuse_taken_port(choices.port)
    _expect_valid_settings(choices)
    with ExitStack() as stack:
        try:
            _run(stack, choices)
        except KeyboardInterrupt:
            click.echo("\nStopping ...")


def _run(stack: ExitStack, choices: Choices) -> None:
    click.echo("Opening the local database ...")
    stack.callback(await_end)
    host = stack.enter_context(database())
    os.environ |= {"FIRESTORE_EMULATOR_HOST": host, "GOOGLE_CLOUD_PROJECT": PROJECT}
    share_secret()
    if choices.sample:
        click.echo("Loading the sample knowledge base ...")
        load_sample()
    gateway, dead = _serve(stack, choices)
    click.echo(welcome(choices.port, variables(), sign_in=choices.sign_in))
    _wait(gateway, dead)


def _serve(stack: ExitStack, choices: Choices) -> tuple[Served, Callable[[], str]]:
    """The gateway, and who tells which of the other parts has died, if one has."""
    environment = _environment(choices)
    log = STATE / f"functions-{choices.port}.log"
    log.unlink(missing_ok=True)
    try:
        program, dead = _program(stack, choices, environment, log)
        return stack.enter_context(serve(program, port=choices.port, log=log)), dead
    except NotStarted as error:
        raise NotStarted(f"{error} It is in {log}.") from error


def _program(
    stack: ExitStack, choices: Choices, environment: dict[str, str], log: Path
) -> tuple[Program, Callable[[], str]]:
    if not choices.functions:
        return in_checkout(GATEWAY, environment), str
    click.echo("Starting each tool as a function of its own ...")
    names = [tool.name for tool in tools()]
    functions = stack.enter_context(serve_tools(names, environment, log=log))
    return functions.gateway(environment), functions.dead


def _wait(gateway: Served, dead: Callable[[], str]) -> None:
    while (code := _ended(gateway)) is None:
        if not STATE.is_dir():
            raise click.ClickException(_DELETED)
        if not is_served():
            raise click.ClickException("The local database died. Start again to go on.")
        if part := dead():
            raise click.ClickException(f"{part} died. Its log is in {STATE}. Start again to go on.")
    raise click.ClickException(f"The gateway ended ({code}). Its log is in {STATE}.")


def _ended(gateway: Served) -> int | None:
    """Wait a moment for the gateway to end: its exit code, or None while it lives."""
    try:
        return gateway.process.wait(timeout=LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _refuse_taken_port(port: int) -> None:
    if answers(f"127.0.0.1:{port}"):
        message = f"Something listens on port {port} already: is Carrel running in another window?"
        raise click.ClickException(f"{message} Choose another: make run ARGS='--port 9090'")


def _environment(choices: Choices) -> dict[str, str]:
    """The gateway's address, and who gets in: the variables that are set are for a deployment."""
    user, public = ("", "false") if choices.sign_in else (LOCAL_USER, "true")
    return {"PUBLIC_URL": origin(choices.port), "LOCAL_USER": user, "PUBLIC_ACCESS": public}


def _expect_valid_settings(choices: Choices) -> None:
    """Read the settings as the gateway does, which could only say in its log what is wrong.

    Raises:
        InvalidInput: The gateway would not start with them.
    """
    environment = _environment(choices)
    settings = Settings(**{name.lower(): value for name, value in environment.items()})
    Catalog.load().configured(settings)

"""Everything at once on a laptop: the emulator, the sample, the gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from infra.deploy.discovery import ROOT, tools
from infra.local.emulator import PROJECT
from infra.local.jobs import load_sample
from infra.local.places import STATE, await_end, database, is_served
from infra.local.processes import answers, serve, serve_tools

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from infra.local.processes import Served


DEFAULT_URL: Final = "http://localhost:8080/mcp"
LOOK_SECONDS: Final = 0.5
"""How often to look whether the database still lives."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How to run.

    Attributes:
        port: Where the gateway listens.
        functions: Whether each tool is a process of its own, as in the cloud.
        sample: Whether to load the sample knowledge base.
    """

    port: int
    functions: bool
    sample: bool


def up(choices: Choices) -> None:
    """Run until Ctrl-C, or until a part of it dies; then end everything that nobody else uses."""
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(end, _interrupt)
    _refuse_taken_port(choices.port)
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
    if choices.sample:
        click.echo("Loading the sample knowledge base ...")
        load_sample()
    gateway = _serve(stack, choices)
    click.echo(_welcome(gateway.url))
    _wait(gateway)


def _serve(stack: ExitStack, choices: Choices) -> Served:
    url = f"http://localhost:{choices.port}"
    environment = {"PUBLIC_URL": url}
    log = STATE / f"functions-{choices.port}.log"
    log.unlink(missing_ok=True)
    source = ROOT / "infra" / "local" / "gateway_main.py"
    if choices.functions:
        click.echo("Starting each tool as a function of its own ...")
        names = [tool.name for tool in tools()]
        served = stack.enter_context(serve_tools(names, environment, log=log))
        environment["TOOL_URLS"] = json.dumps({name: one.url for name, one in served.items()})
        source = ROOT / "functions" / "gateway" / "main.py"
    return stack.enter_context(serve(source, environment, port=choices.port, log=log))


def _wait(gateway: Served) -> None:
    while (code := _ended(gateway)) is None:
        if not is_served():
            raise click.ClickException("The local database died. Start again to go on.")
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


def _welcome(served_at: str) -> str:
    url = f"http://localhost:{urlsplit(served_at).port}/mcp"
    elsewhere = "" if url == DEFAULT_URL else f" --url {url}"
    desktop = {"mcpServers": {"carrel": {"command": str(_command()), "args": ["stdio"]}}}
    return f"""
Carrel is running. Its MCP endpoint is

    {url}

Add it to Claude Code:

    claude mcp add --transport http carrel {url}

Add it to Claude Desktop (Settings, Developer, Edit Config):

    {json.dumps(desktop)}

Try a call, in another window:

    .venv/bin/carrel call search_kb '{{"query": "why do flaky tests hurt?", "limit": 3}}'{elsewhere}

Put your own texts in:

    .venv/bin/carrel ingest ~/notes

There is no sign-in: whoever reaches this machine's loopback address may read. Ctrl-C ends it.
"""


def _command() -> Path:
    return ROOT / ".venv" / "bin" / "carrel"

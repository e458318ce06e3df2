"""`carrel init`: makes Carrel known to an MCP client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from infra.folders import run_command
from infra.local.local_database import list_environment_variables
from infra.mcp_clients import CLIENTS, Server, UnchangedConfiguration, cache_notice
from shared.core.installation import carrel_command, carrel_program

_CLIENTS = {client.name: client for client in CLIENTS}
_PLUGIN = Path(__file__).resolve().parents[1] / "claude_plugin"
"""The plugin for Claude Code, which is a marketplace of its own, too."""


@click.command()
@click.argument("client", type=click.Choice(list(_CLIENTS)))
@click.option(
    "--url",
    default="",
    help="Address of a running Carrel, such as http://localhost:8080/mcp. By default, the client"
    " starts Carrel itself.",
)
@click.option("--print", "is_printed", is_flag=True, help="Print the configuration, write nothing.")
@click.option("--replace", is_flag=True, help="Replace another server that is named carrel.")
@click.option(
    "--plugin",
    "has_plugin",
    is_flag=True,
    help="Also install the plugin for Claude Code, which recalls and keeps texts unasked.",
)
def init(client: str, url: str, *, is_printed: bool, replace: bool, has_plugin: bool) -> None:
    """Add Carrel to the configuration of CLIENT, for all projects of this user.

    Other settings in the file stay, and a copy of the former file is kept next to it.
    """
    if url and not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url!r} is not an address such as http://localhost:8080/mcp.")
    if has_plugin and client != "claude":
        command = f"{carrel_command()} init claude --plugin"
        raise click.UsageError(f"Only Claude Code has a plugin: {command}")
    if (has_plugin or not url) and (notice := cache_notice()):
        raise click.ClickException(notice)
    chosen = _CLIENTS[client]
    program = "" if url else str(carrel_program())
    server = Server(program=program, url=url, variables={} if url else list_environment_variables())
    path = chosen.path(Path.home(), sys.platform, os.environ)
    if has_plugin and not is_printed:
        _install_plugin()
    try:
        if is_printed:
            click.echo(f"{path}:\n\n{chosen.snippet(server)}".rstrip())
            return
        copy = chosen.add_server(path, server, replace=replace)
    except UnchangedConfiguration as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        reason = f"{error.filename or path}: {error.strerror}"
        message = f"{reason}. To see what to write there: {carrel_command()} init {client} --print"
        raise click.ClickException(message) from error
    click.echo(f"Wrote {path}." + (f" The former file is {copy}." if copy else ""))
    needs = f"Carrel must be running: {run_command()}. " if url.startswith("http://") else ""
    click.echo(f"{needs}Restart {chosen.title} to connect.")


def _install_plugin() -> None:
    """Let Claude Code install the plugin, of which it keeps a copy."""
    commands = [
        ["claude", "plugin", "marketplace", "add", str(_PLUGIN)],
        ["claude", "plugin", "install", "carrel@carrel"],
    ]
    if not shutil.which("claude"):
        lines = "\n".join(f"  {' '.join(command)}" for command in commands)
        raise click.ClickException(
            f"There is no `claude` on the PATH. Run these yourself:\n{lines}"
        )
    for command in commands:
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own commands
            raise click.ClickException(f"`{' '.join(command)}` failed.")
    click.echo(f"The plugin asks a running Carrel: {run_command()}.")

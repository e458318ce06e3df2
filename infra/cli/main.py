"""The `carrel` command."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from pathlib import Path

import click

from infra.cli.accounts import accounts
from infra.cli.deploy import deploy, destroy, smoke
from infra.cli.doctor import doctor
from infra.cli.formatting import PORT
from infra.cli.jobs import jobs
from infra.cli.keys import keys
from infra.cli.materials import materials
from infra.cloud.environment import set_job_secrets, use_deployment
from infra.local import local_database
from infra.local.emulator import EmulatorError
from infra.local.processes import StartError
from shared.core.errors import CarrelError

_EMBEDDING_COMMANDS = ("ingest", "jobs")
_INTERRUPTED = "\nInterrupted. Stored results are kept. To continue, run the same command again."
_INTERRUPTED_STATUS = 130


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Print expected errors as messages without a traceback."""
        try:
            return super().invoke(ctx)
        except (CarrelError, EmulatorError, StartError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if message := local_database.explain_os_error(error):
                raise click.ClickException(message) from error
            raise


@click.group(cls=_Commands)
@click.option(
    "--cloud",
    is_flag=True,
    help="Work on this checkout's deployment, or on the project in GOOGLE_CLOUD_PROJECT.",
)
@click.pass_context
def main(ctx: click.Context, *, cloud: bool) -> None:
    """Carrel: a knowledge base that AI assistants read and write over MCP.

    Without --cloud, commands work on the knowledge base of this machine, which `make run` serves.
    """
    if cloud:
        use_deployment(embedding=ctx.invoked_subcommand in _EMBEDDING_COMMANDS)
    else:
        local_database.use_local_database()


for _command in (accounts, deploy, destroy, doctor, jobs, keys, materials, smoke):
    main.add_command(_command)


@main.command()
@click.option("--port", type=PORT, default=8080, show_default=True, help="Port of the gateway.")
@click.option(
    "--topology",
    type=click.Choice(["inline", "functions"]),
    default="inline",
    show_default=True,
    help="Run tools in the gateway's process, or each in its own process as in the cloud.",
)
@click.option("--sample/--no-sample", default=True, help="Load the sample knowledge base.")
@click.option("--sign-in", is_flag=True, help="Require credentials, as in the cloud.")
def up(port: int, topology: str, *, sample: bool, sign_in: bool) -> None:
    """Run Carrel on this machine: database, sample, gateway."""
    from infra.local.local_run import RunOptions, run_locally

    functions = topology == "functions"
    run_locally(RunOptions(port=port, functions=functions, sample=sample, sign_in=sign_in))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def ingest(path: Path) -> None:
    """Add the texts in PATH to the knowledge base: a Readwise export, notes, or JSON Lines.

    Exits with 1 if some texts could not be read and were skipped.
    """
    from infra.local.jobs import ingest_all

    set_job_secrets(["embed"])
    try:
        with local_database.connected_database():
            complete = ingest_all(path)
            local_database.save_now()
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(_INTERRUPTED_STATUS)
    sys.exit(not complete)


@main.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@click.option("--url", default="http://localhost:8080/mcp", show_default=True)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="NAME=PATH",
    help="Read the argument NAME from a text file. A PATH of - is standard input.",
)
def call(tool: str, arguments: str, url: str, files: tuple[str, ...]) -> None:
    """Call TOOL over MCP with ARGUMENTS, a JSON object, and print the result.

    Pass a long text in a file: --file materials=report.txt. If the server requires a credential,
    set the environment variable CARREL_KEY to an access key.
    """
    from infra.local.client import call_tool

    try:
        parsed = json.loads(arguments, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise click.ClickException(f"ARGUMENTS is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.ClickException("ARGUMENTS must be a JSON object, such as '{\"limit\": 3}'.")
    parsed |= dict(map(_argument_from_file, files))
    key = os.environ.get("CARREL_KEY", "").strip() or None
    succeeded, output = asyncio.run(call_tool(url, tool, parsed, key))
    click.echo(output, err=not succeeded)
    sys.exit(not succeeded)


def _finite(text: str) -> float:
    """Parse a JSON number, and reject NaN and infinity, which would reach the server as null."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _argument_from_file(option: str) -> tuple[str, str]:
    """Parse NAME=PATH, and return the argument's name and the file's text."""
    name, _, path = option.partition("=")
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return name, file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{option}: cannot read the text ({error}).") from error


@main.command()
def stdio() -> None:
    """Serve MCP over standard input and output, for Claude Desktop's configuration file.

    The server shares its database with `make run` and with the servers of other clients. The
    database stops when none of them is left.
    """
    from infra.local.stdio import serve_stdio
    from shared.core.settings import Settings

    local_database.set_local_secrets()
    with local_database.connected_database():
        asyncio.run(serve_stdio(Settings()))


@main.command()
@click.option("--check", is_flag=True, help="Write nothing, and fail if a file is out of date.")
def generate(*, check: bool) -> None:
    """Write the files that are generated from declarations of tools, jobs and settings."""
    from infra.build import generated

    stale_files = generated.stale_files()
    if check and stale_files:
        names = ", ".join(str(path) for path in stale_files)
        raise click.ClickException(f"Out of date: {names}. Run `make fix`.")
    for path in stale_files:
        generated.write_file(path)
        click.echo(f"wrote {path}")


@main.command()
def stage() -> None:
    """Write the bundles of all functions to the folder `dist`."""
    from infra.build import generated
    from infra.build.bundles import DIST
    from infra.build.bundles import stage as write_bundles

    if generated.CATALOG in generated.stale_files():
        raise click.ClickException("The gateway's catalog is out of date. Run `make fix`.")
    manifest = write_bundles()
    click.echo(f"{len(manifest['functions'])} bundles in {DIST}")


@main.command("new-tool")
@click.argument("path", metavar="GROUP/NAME")
@click.option("--writes", is_flag=True, help="The tool changes data.")
def new_tool(path: str, *, writes: bool) -> None:
    """Create a tool to fill in, such as knowledge/count_chunks, with its first test."""
    from infra.build.scaffold import create_tool

    for file in create_tool(path, writes=writes):
        click.echo(f"wrote {file}")
    click.echo("Write the handler, then run `make fix` to add the tool to the generated files.")

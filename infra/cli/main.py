"""The `carrel` command: run it on a laptop, put texts in, call a tool, decide who may call."""

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
from infra.cloud.place import share_secrets_of_jobs, work_in_the_cloud
from infra.local import local_database
from infra.local.emulator import EmulatorError
from infra.local.processes import NotStarted
from shared.core.errors import CarrelError

_EMBEDDING = ("ingest", "jobs")
_INTERRUPTED = "\nStopped. What was stored stays: run the same command again to go on."


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Say what went wrong and what to do, without a traceback."""
        try:
            return super().invoke(ctx)
        except (CarrelError, EmulatorError, NotStarted) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if message := local_database.explain(error):
                raise click.ClickException(message) from error
            raise


@click.group(cls=_Commands)
@click.option(
    "--cloud",
    is_flag=True,
    help="Work on what this checkout has deployed, or on the project in GOOGLE_CLOUD_PROJECT.",
)
@click.pass_context
def main(ctx: click.Context, *, cloud: bool) -> None:
    """Carrel: a knowledge base that AI assistants read and write over MCP.

    Commands work on this machine's knowledge base, the one that `make run` serves.
    """
    if cloud:
        work_in_the_cloud(embedding=ctx.invoked_subcommand in _EMBEDDING)
    else:
        local_database.work_locally()


for _command in (accounts, deploy, destroy, doctor, jobs, keys, materials, smoke):
    main.add_command(_command)


@main.command()
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Where the gateway listens."
)
@click.option(
    "--topology",
    type=click.Choice(["inline", "functions"]),
    default="inline",
    show_default=True,
    help="Tools in the gateway's process, or each in its own as in the cloud.",
)
@click.option("--sample/--no-sample", default=True, help="Load the sample knowledge base.")
@click.option(
    "--sign-in", is_flag=True, help="Let nobody in without a credential, as in the cloud."
)
def up(port: int, topology: str, *, sample: bool, sign_in: bool) -> None:
    """Start the emulator, load the sample, serve the gateway."""
    from infra.local.up import Choices
    from infra.local.up import up as run

    run(Choices(port=port, functions=topology == "functions", sample=sample, sign_in=sign_in))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def ingest(path: Path) -> None:
    """Read PATH into the knowledge base: a Readwise export, notes, or JSON Lines.

    It ends with 0, or with 1 where something was left out that should have been read.
    """
    from infra.local.jobs import ingest_all

    share_secrets_of_jobs(["embed"])
    try:
        with local_database.knowledge_base():
            complete = ingest_all(path)
            local_database.keep()
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(130)
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
    help="Take the argument NAME from a text file; a PATH of - is standard input.",
)
def call(tool: str, arguments: str, url: str, files: tuple[str, ...]) -> None:
    """Call TOOL over MCP with ARGUMENTS, a JSON object, and print the answer.

    A long text comes from a file: --file materials=report.txt. Where a credential is needed, put a
    key into the environment variable CARREL_KEY.
    """
    from infra.local.client import call_tool

    try:
        parsed = json.loads(arguments, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise click.ClickException(f"ARGUMENTS is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.ClickException("ARGUMENTS must be a JSON object, such as '{\"limit\": 3}'.")
    parsed |= dict(map(_from_file, files))
    key = os.environ.get("CARREL_KEY", "").strip() or None
    well, text = asyncio.run(call_tool(url, tool, parsed, key))
    click.echo(text, err=not well)
    sys.exit(not well)


def _finite(text: str) -> float:
    """A number of JSON. One that is infinite or none would reach the server as null."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _from_file(named: str) -> tuple[str, str]:
    """An argument, and the text of the file that holds it."""
    name, _, path = named.partition("=")
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return name, file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{named}: no text can be read there ({error}).") from error


@main.command()
def stdio() -> None:
    """Serve MCP over standard input and output, for Claude Desktop's configuration file.

    `make run` and other clients' servers share its database, which leaves with the last of them.
    """
    from infra.local.stdio import serve_stdio
    from shared.core.settings import Settings

    local_database.share_secret()
    with local_database.knowledge_base():
        asyncio.run(serve_stdio(Settings()))


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is out of date.")
def generate(*, check: bool) -> None:
    """Write the files that are generated from the tools' declarations."""
    from infra.build import generated

    stale = generated.stale()
    if check and stale:
        names = ", ".join(str(path) for path in stale)
        raise click.ClickException(f"Out of date: {names}. Run `make fix`.")
    for path in stale:
        generated.write(path)
        click.echo(f"wrote {path}")


@main.command()
def stage() -> None:
    """Write the bundles of all functions into `dist`, as they are deployed."""
    from infra.build import generated
    from infra.build.bundles import DIST
    from infra.build.bundles import stage as write

    if generated.CATALOG in generated.stale():
        raise click.ClickException("The gateway's catalogue is out of date. Run `make fix`.")
    manifest = write()
    click.echo(f"{len(manifest['functions'])} bundles in {DIST}")


@main.command("new-tool")
@click.argument("path", metavar="GROUP/NAME")
def new_tool(path: str) -> None:
    """Make the folder of a new tool, as knowledge/count_chunks, with a declaration to fill in."""
    from infra.build.scaffold import create_tool

    for file in create_tool(path):
        click.echo(f"wrote {file}")
    click.echo("Write its handler, then run `make fix`: the gateway's catalogue names it then.")

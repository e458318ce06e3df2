"""The `carrel` command.

Most imports are inside functions, here and in the other files of this folder, so that a command and
its help appear fast.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import click

from infra.cli.formatting import IP_ADDRESS, PORT
from infra.local import local_database
from infra.local.processes import LOOPBACK, StartError
from shared.core.errors import CarrelError
from shared.core.installation import IS_CHECKOUT


class Place(Enum):
    """Where a command works, and so whether --cloud has a meaning for it."""

    EITHER = auto()
    """On the knowledge base of this machine; with --cloud, on the deployment's."""
    MACHINE = auto()
    """On this machine only."""
    DEPLOYMENT = auto()
    """On the deployment, without being told."""


_REFUSALS: Final = {
    Place.MACHINE: "`{command}` works on this machine only. Leave out --cloud.",
    Place.DEPLOYMENT: "`{command}` always works on the deployment. Leave out --cloud.",
}
"""Why --cloud is refused. It replaces the settings of this machine by the deployment's, which a
server on this machine must never mix with its own secrets and texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan:
    """What must be known about a command before its module is imported.

    Attributes:
        place: Where it works.
        module: Its module in this folder, which is imported only when the command is used, because
            some imports take a second or two.
        needs_checkout: Whether it needs files from the repository that the package does not have.
        embeds: Whether it may embed texts, for which --cloud requires an explicit embedding model.
        writes_in_bulk: Whether the last of its writes may be lost in a power failure, after which
            it is run again. Then, writes do not wait for the disk.
    """

    place: Place
    module: str = "main"
    needs_checkout: bool = False
    embeds: bool = False
    writes_in_bulk: bool = False


PLANS: Final = {
    "accounts": CommandPlan(place=Place.EITHER, module="accounts"),
    "backup": CommandPlan(place=Place.MACHINE, module="backup"),
    "call": CommandPlan(place=Place.EITHER, module="tools"),
    "deploy": CommandPlan(place=Place.DEPLOYMENT, module="deploy", needs_checkout=True),
    "destroy": CommandPlan(place=Place.DEPLOYMENT, module="deploy", needs_checkout=True),
    "doctor": CommandPlan(place=Place.MACHINE, module="doctor"),
    "export": CommandPlan(place=Place.EITHER, module="export"),
    "forget": CommandPlan(place=Place.EITHER, module="forget"),
    "generate": CommandPlan(place=Place.MACHINE, needs_checkout=True),
    "golden": CommandPlan(place=Place.EITHER, module="golden"),
    "ingest": CommandPlan(place=Place.EITHER, module="ingest", embeds=True, writes_in_bulk=True),
    "init": CommandPlan(place=Place.MACHINE, module="init"),
    "jobs": CommandPlan(place=Place.EITHER, module="jobs", embeds=True, writes_in_bulk=True),
    "keys": CommandPlan(place=Place.EITHER, module="keys"),
    "links": CommandPlan(place=Place.EITHER, module="links", embeds=True, writes_in_bulk=True),
    "materials": CommandPlan(place=Place.EITHER, module="materials"),
    "restore": CommandPlan(place=Place.MACHINE, module="backup"),
    "search": CommandPlan(place=Place.EITHER, module="tools"),
    "show": CommandPlan(place=Place.EITHER, module="tools"),
    "smoke": CommandPlan(place=Place.DEPLOYMENT, module="deploy", needs_checkout=True),
    "sources": CommandPlan(place=Place.EITHER, module="tools"),
    "stage": CommandPlan(place=Place.MACHINE, needs_checkout=True),
    "stdio": CommandPlan(place=Place.MACHINE),
    "up": CommandPlan(place=Place.MACHINE, writes_in_bulk=True),  # only the sample
    "why": CommandPlan(place=Place.EITHER, module="golden", embeds=True),
}
"""Every command."""


_NO_EMULATOR: Final = (
    "Start an emulator first, and name its address, such as FIRESTORE_EMULATOR_HOST=127.0.0.1:8686"
    " for `gcloud emulators firestore start --host-port=127.0.0.1:8686`."
)


class _Commands(click.Group):
    """A group of commands. Most are imported only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *PLANS})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of all commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, read_summary(name)) for name in self.list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in self.commands or cmd_name not in PLANS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"infra.cli.{PLANS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Print expected errors as messages without a traceback."""
        try:
            return super().invoke(ctx)
        except (CarrelError, StartError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if message := local_database.explain_os_error(error):
                raise click.ClickException(message) from error
            raise


def read_summary(name: str) -> str:
    """Return the first sentence of a command's docstring, from its source: imports take seconds."""
    functions = _parse(PLANS[name].module).body
    [function] = [
        node for node in functions if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    paragraph = " ".join((ast.get_docstring(function) or "").partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


@cache
def _parse(module: str) -> ast.Module:
    return ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))


@click.group(cls=_Commands)
@click.option(
    "--cloud",
    is_flag=True,
    help="Work on this checkout's deployment, or on the project in GOOGLE_CLOUD_PROJECT.",
)
@click.version_option(package_name="carrel", message="carrel %(version)s")
@click.pass_context
def main(ctx: click.Context, *, cloud: bool) -> None:
    """Carrel: a knowledge base that AI assistants read and write over MCP.

    Without --cloud, commands work on the knowledge base of this machine, which `make run` serves.
    """
    command = str(ctx.invoked_subcommand)
    plan = PLANS[command]
    if cloud and plan.place in _REFUSALS:
        raise click.UsageError(_REFUSALS[plan.place].format(command=f"carrel {command}"))
    if not IS_CHECKOUT and plan.needs_checkout:
        message = f"`carrel {command}` needs Carrel's repository, not only the package."
        raise click.ClickException(f"{message} Clone it, and run the command there.")
    if cloud:
        from infra.cloud.environment import use_deployment

        use_deployment(embedding=plan.embeds)
    else:
        local_database.use_local_database(durable=not plan.writes_in_bulk)


@main.command()
@click.option("--port", type=PORT, default=8080, show_default=True, help="Port of the gateway.")
@click.option(
    "--topology",
    type=click.Choice(["inline", "functions"]),
    default="inline",
    show_default=True,
    help="Run tools in the gateway's process, or each in its own process as in the cloud.",
)
@click.option(
    "--database",
    type=click.Choice(["embedded", "emulator"]),
    help="Keep data in the state folder, or use the emulator that FIRESTORE_EMULATOR_HOST names,"
    " which keeps nothing. By default, the emulator if it is named.",
)
@click.option("--sample/--no-sample", default=True, help="Load the sample knowledge base.")
@click.option("--sign-in", is_flag=True, help="Require credentials, as in the cloud.")
@click.option(
    "--bind",
    "address",
    type=IP_ADDRESS,
    default=LOOPBACK,
    show_default=True,
    envvar="CARREL_BIND",
    help="IP address at which the gateway listens. Any but a loopback address needs --sign-in.",
)
def up(  # noqa: PLR0913 - click passes each option
    port: int, topology: str, database: str | None, *, sample: bool, sign_in: bool, address: str
) -> None:
    """Run Carrel on this machine: database, sample, gateway."""
    if database == "embedded":
        os.environ.pop("FIRESTORE_EMULATOR_HOST", None)
        local_database.use_local_database(durable=False)
    if database == "emulator" and not os.environ.get("FIRESTORE_EMULATOR_HOST"):
        raise click.UsageError(_NO_EMULATOR)
    if not ip_address(address).is_loopback and not sign_in:
        raise click.UsageError(
            f"At {address}, other machines and containers reach Carrel, and without sign-in they"
            " could read and change everything. Add --sign-in."
        )
    click.echo("Starting Carrel ...")  # the imports below take seconds on a busy machine
    from infra.local.local_run import RunOptions, run_locally

    functions = topology == "functions"
    run_locally(
        RunOptions(port=port, functions=functions, sample=sample, sign_in=sign_in, address=address)
    )


@main.command()
@click.option("--tools", default="", help="The groups of tools to offer, such as knowledge,tasks.")
def stdio(tools: str) -> None:
    """Serve MCP over standard input and output, for Claude Desktop's configuration file.

    The server uses the same data as `make run` and the servers of other clients.
    """
    import asyncio

    from shared.core import cold_start  # noqa: F401 - `infra.local.warm_up` ends it

    # isort: split
    from infra.local.stdio import serve_stdio
    from shared.core.settings import Settings

    for note in local_database.list_notes():
        click.echo(note, err=True)
    local_database.set_local_secrets()
    settings = Settings(tool_groups=tuple(tools.split(","))) if tools else Settings()
    asyncio.run(serve_stdio(settings))


@main.command()
@click.option("--check", is_flag=True, help="Write nothing, and fail if a file is out of date.")
def generate(*, check: bool) -> None:
    """Write the files that are generated from declarations of tools, jobs and settings."""
    from infra.build import generated

    stale_files = generated.find_stale_files()
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
    from infra.cloud.deployment import load_deployment

    if generated.CATALOG in generated.find_stale_files():
        raise click.ClickException("The gateway's catalog is out of date. Run `make fix`.")
    deployment = load_deployment()
    manifest = write_bundles(telemetry=bool(deployment and deployment.exports_spans))
    click.echo(f"{len(manifest['functions'])} bundles in {DIST}")

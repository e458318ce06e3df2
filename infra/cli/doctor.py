"""`carrel doctor`: what is well, what is missing, and the command to run next."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from infra.cli.formatting import PORT
from infra.doctor.check import Finding, State, findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infra.doctor.check import Check, SubjectT
    from infra.doctor.deployed import Deployed

_WIDTH: Final = 20


@click.command()
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Where the local gateway listens."
)
@click.pass_context
def doctor(ctx: click.Context, port: int) -> None:
    """Look at this machine's Carrel, or with --cloud at the deployed one, and say what is wrong.

    It changes nothing. Where something is wrong, it names the command to run next, and ends with 1.
    """
    if ctx.find_root().params["cloud"]:
        from infra.doctor.cloud import CHECKS as IN_THE_CLOUD

        sys.exit(not tell(IN_THE_CLOUD, _deployed()))
    from infra.doctor.local import CHECKS, Machine

    sys.exit(not tell(CHECKS, Machine(port=port)))


def tell(checks: Iterable[Check[SubjectT]], subject: SubjectT) -> bool:
    """Print what each check finds; tell whether nothing is wrong."""
    well = True
    for check, finding in findings(checks, subject):
        click.echo(_line(check.name, finding))
        well = well and finding.state is not State.WRONG
    click.echo("All is well." if well else "Something is wrong: run what stands after `next`.")
    return well


def _line(name: str, finding: Finding) -> str:
    line = f"{finding.state.value:<10}{name:<{_WIDTH}}{finding.said}"
    then = [f"{'':<10}{'':<{_WIDTH}}next: {step}" for step in finding.next.splitlines()]
    return "\n".join([line, *then])


def _deployed() -> Deployed:
    from google.cloud.storage import Client

    from infra.build.discovery import ROOT
    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment, read
    from infra.cloud.google_api import GoogleApi, signed_in
    from infra.doctor.deployed import Deployed
    from shared.core.settings import Settings

    project = os.environ["GOOGLE_CLOUD_PROJECT"]
    chosen = read()
    if chosen is None or chosen.project != project:
        chosen = Deployment(project=project)
        signed_in(project)
        good = Bucket(Client(project=project), chosen.bucket).last_good()
        chosen = good[1] if good else chosen
    os.environ.update(chosen.environment)
    return Deployed(
        deployment=chosen,
        settings=Settings(),
        sign_in=lambda: GoogleApi(signed_in(project)),
        open_bucket=lambda: Bucket(Client(project=project), chosen.bucket),
        indexes={
            "(default)": ROOT / "firestore.indexes.json",
            "access": ROOT / "infra" / "build" / "access.indexes.json",
        },
    )

"""`carrel doctor`: checks an installation and prints the command to run for each problem."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from infra.cli.formatting import PORT
from infra.doctor.check import CheckResult, CheckStatus, run_checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infra.doctor.check import Check, SubjectT
    from infra.doctor.live_deployment import LiveDeployment

_STATUS_WIDTH: Final = 10
"""The width of the column with the status, in characters."""
_NAME_WIDTH: Final = 20
"""The width of the column with the name of the check."""


@click.command()
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Port of the local gateway."
)
@click.pass_context
def doctor(ctx: click.Context, port: int) -> None:
    """Check Carrel on this machine or, with --cloud, the deployment.

    The command changes nothing. For each problem it prints the command to run next, and it exits
    with 1 if there is a problem.
    """
    if ctx.find_root().params["cloud"]:
        from infra.doctor.cloud import CHECKS as CLOUD_CHECKS

        sys.exit(not report(CLOUD_CHECKS, load_live_deployment()))
    from infra.doctor.local import CHECKS, Machine

    sys.exit(not report(CHECKS, Machine(port=port)))


def report(checks: Iterable[Check[SubjectT]], subject: SubjectT) -> bool:
    """Run checks, print their results, and return whether all passed."""
    is_healthy = True
    for check, result in run_checks(checks, subject):
        click.echo(_format(check.name, result))
        is_healthy = is_healthy and result.status is not CheckStatus.WRONG
    click.echo(
        "Everything works." if is_healthy else "There are problems. Run the commands after `next`."
    )
    return is_healthy


def _format(name: str, result: CheckResult) -> str:
    """Format the result of a check as a line, with a line below it for each next command."""
    indent = " " * (_STATUS_WIDTH + _NAME_WIDTH)
    line = f"{result.status.value:<{_STATUS_WIDTH}}{name:<{_NAME_WIDTH}}{result.message}"
    next_lines = [f"{indent}next: {command}" for command in result.next_command.splitlines()]
    return "\n".join([line, *next_lines])


def load_live_deployment() -> LiveDeployment:
    """Load the description of the deployment in the project GOOGLE_CLOUD_PROJECT.

    It is that of this checkout if the project is the same, or else that of the last good release in
    the project's bucket. The deployment's settings are added to the environment.
    """
    from google.cloud.storage import Client

    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment, load_deployment
    from infra.cloud.google_api import GoogleApi, open_google_session
    from infra.doctor.live_deployment import LiveDeployment
    from infra.local.local_database import INDEX_FILES
    from shared.core.settings import Settings

    project = os.environ["GOOGLE_CLOUD_PROJECT"]
    deployment = load_deployment()
    if deployment is None or deployment.project != project:
        deployment = Deployment(project=project)
        open_google_session(project)
        release = Bucket(Client(project=project), deployment.bucket).load_last_good_release()
        deployment = release.deployment if release else deployment
    os.environ.update(deployment.environment)
    return LiveDeployment(
        deployment=deployment,
        settings=Settings(),
        sign_in=lambda: GoogleApi(open_google_session(project)),
        open_bucket=lambda: Bucket(Client(project=project), deployment.bucket),
        indexes=INDEX_FILES,
    )

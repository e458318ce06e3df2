"""`carrel deploy`, `destroy` and `smoke`: to the cloud, down again, and whether it answers."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import click

from infra.cloud import asking, deployment, steps
from infra.cloud.cloud import Cloud
from infra.cloud.deployment import PATH, Deployment
from infra.cloud.destruction import destroy as take_down
from infra.cloud.failures import NotDone
from infra.cloud.release import URL
from infra.cloud.services import project_number, with_budget
from infra.cloud.terraform import Terraform

_USUAL_BUDGET: Final = 10
"""Terraform's, where none is given."""
_STEPS: Final = {"indexes": steps.INDEXES, "release": steps.RELEASE}
_MADE: Final = """
In the project {project}: two Firestore databases ({location}, for ever), their indexes, a
bucket, secrets, {functions} functions with an account each ({region}), the schedules of jobs, a
dashboard, and alerts.

For one person that costs a dollar or two a month at published prices; docs/costs.md has the sums,
and what it costs to bring texts in.

{budget}
"""
_DONE: Final = """
It answers at {url}/mcp. Make yourself a key, which is shown once:

    .venv/bin/carrel --cloud keys create --user you@example.com --name laptop

What is well and what is not: .venv/bin/carrel --cloud doctor
"""
_LEFT: Final = """
Done. Terraform's state and the bundles are left, and Google's copies of these, for some cents a
month. To delete them too:
  gcloud storage rm --recursive --all-versions gs://{bucket}
  gcloud storage rm --recursive --all-versions gs://gcf-v2-sources-{number}-{region}"""


@click.command()
@click.option("--project", help="The Google Cloud project, where no file names it yet.")
@click.option("--yes", is_flag=True, help="Agree to what it costs; builds do.")
@click.option(
    "--only",
    type=click.Choice(sorted(_STEPS)),
    help="A part, as a build does it: databases and indexes; or functions, from what is staged.",
)
def deploy(project: str | None, *, yes: bool, only: str | None) -> None:
    """Put Carrel into your Google Cloud project, or bring it up to date there.

    What is deployed stands in deployment.tfvars.json, which this asks for the first time. It can be
    run again after any failure. If the new functions do not answer, those before are put back.
    """
    found = deployment.read()
    chosen = found or asking.described(project)
    if project not in {None, chosen.project}:
        raise NotDone(f"{PATH.name} is of the project {chosen.project}, and not of {project}.")
    cloud = opened(chosen)
    click.echo(f"Terraform {cloud.terraform.version()}, project {chosen.project}")
    if only is None:
        click.echo(_described(chosen, budget=warning(chosen, new=not found)))
    asking.agreed("Deploy it?", yes=yes)
    if not found:
        cloud = with_budget(cloud)
        deployment.write(cloud.deployment)
        click.echo(f"Wrote {PATH.name}: it says what is deployed, and holds no secret.")
    steps.go(cloud, _STEPS.get(only or "", steps.EVERYTHING))
    if only != "indexes":
        url = cloud.terraform.outputs()[URL]
        click.echo(_DONE.format(url=url))


@click.command()
@click.option("--delete-data", is_flag=True, help="Delete the databases and the texts, too.")
def destroy(*, delete_data: bool) -> None:
    """Take Carrel down. Databases and texts stay, unless you have them deleted."""
    chosen = deployment.read()
    if chosen is None:
        raise NotDone(f"There is no {PATH.name}: this checkout has not deployed anything.")
    goes = "Databases and texts are deleted too." if delete_data else "Databases and texts stay."
    click.echo(f"This takes down all of Carrel in {chosen.project}. {goes}")
    asking.named_in_full(chosen.project)
    cloud = opened(chosen)
    take_down(cloud, data=delete_data)
    number = project_number(cloud.api, chosen.project)
    click.echo(_LEFT.format(bucket=chosen.bucket, number=number, region=chosen.region))


@click.command()
@click.argument("url")
def smoke(url: str) -> None:
    """Call the gateway at URL as a client does, with the key in CARREL_KEY, and say what came."""
    from infra.cloud.smoke import smoke as run_smoke_test

    key = os.environ.get("CARREL_KEY", "").strip()
    if not key:
        raise click.ClickException(
            "CARREL_KEY holds no key. `carrel keys create --user YOU --name terminal` makes one."
        )
    outcome = asyncio.run(run_smoke_test(url, key))
    for line in outcome.said:
        click.echo(line, err=not outcome.well)
    click.echo("It works." if outcome.well else "It does not work.", err=not outcome.well)
    sys.exit(not outcome.well)


def opened(chosen: Deployment) -> Cloud:
    """What reaches a deployment.

    Raises:
        NotDone: Nobody is signed in, the project cannot be reached, or Terraform is missing.
    """
    from google.cloud.storage import Client

    from infra.build.bundles import DIST, stage
    from infra.cloud.bucket import Bucket
    from infra.cloud.foundation import backend
    from infra.cloud.google_api import GoogleApi, signed_in
    from infra.cloud.secret_values import SecretValues
    from infra.cloud.smoke import smoke

    os.environ.pop("FIRESTORE_EMULATOR_HOST", None)
    os.environ["GOOGLE_CLOUD_PROJECT"] = chosen.project  # Terraform's provider reads it too
    # Of a person's sign-in, some APIs ask on whose quota it is, and `login` alone does not say.
    # https://cloud.google.com/docs/authentication/troubleshoot-adc
    os.environ["GOOGLE_CLOUD_QUOTA_PROJECT"] = chosen.project
    terraform = Terraform(backend=backend(chosen))
    terraform.version()
    api = GoogleApi(signed_in(chosen.project))
    project_number(api, chosen.project)
    return Cloud(
        deployment=chosen,
        variables=PATH,
        dist=DIST,
        api=api,
        bucket=Bucket(Client(project=chosen.project), chosen.bucket),
        secrets=SecretValues(api, chosen.project),
        terraform=terraform,
        stage=stage,
        smoke=smoke,
        ask=asking.secret_value,
        say=click.echo,
        key=os.environ.get("CARREL_KEY", "").strip(),
    )


def warning(chosen: Deployment, *, new: bool) -> str:
    """Who is warned of costs, if anybody; of a new deployment the account is asked for later."""
    if chosen.billing_account or (new and chosen.monthly_budget):
        most = chosen.monthly_budget or _USUAL_BUDGET
        return f"Whoever pays is warned when a month costs more than {most}, in their currency."
    return f"No budget is set: nothing warns of costs. {PATH.name} takes billing_account."


def _described(chosen: Deployment, *, budget: str) -> str:
    from infra.build.functions import functions

    return _MADE.format(
        project=chosen.project,
        location=chosen.firestore_location,
        region=chosen.region,
        functions=len(functions()),
        budget=budget,
    )

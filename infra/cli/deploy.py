"""`carrel deploy`, `carrel destroy` and `carrel smoke`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import Final

import click

from infra.cloud import deployment, plan, prompts
from infra.cloud.cloud import Cloud
from infra.cloud.deployment import FILE, Deployment
from infra.cloud.errors import CommandFailed
from infra.cloud.release import URL_OUTPUT
from infra.cloud.services import add_budget, look_up_project_number
from infra.cloud.teardown import destroy as tear_down
from infra.cloud.terraform import Terraform
from shared.core.installation import carrel_on_deployment

_DEFAULT_BUDGET: Final = 10
"""The default of `monthly_budget` in `infra/terraform/variables.tf`."""
_PLANS: Final = {"indexes": plan.INDEXES_ONLY, "release": plan.RELEASE_ONLY}
"""The steps of a partial deployment, by the value of `--only`."""
_SUMMARY_TEMPLATE: Final = """
In the project {project} this creates two Firestore databases (in {location}; their location cannot
be changed later) with indexes, a bucket, secrets, {functions} functions with a service account each
(in {region}), schedules for the jobs, a dashboard and alerts.

For one person this costs a dollar or two a month at published prices. docs/deploy.md has the
figures.

{budget}
"""
_DEPLOYED_MESSAGE: Final = """
Carrel runs at {url}/mcp. Make yourself the owner, and create a key, which is shown only once:

    {carrel} accounts role you@example.com owner
    {carrel} keys create --user you@example.com --name laptop

Check the deployment: {carrel} doctor
"""
_DESTROYED_MESSAGE: Final = """
Done. Terraform's state, the bundles and Google's copies of them remain, and cost some cents a
month. To delete them too:
  gcloud storage rm --recursive --all-versions gs://{bucket}
  gcloud storage rm --recursive --all-versions gs://gcf-v2-sources-{number}-{region}"""


@click.command()
@click.option("--project", help="The Google Cloud project, for the first deployment.")
@click.option("--yes", is_flag=True, help="Accept the costs without being asked, as builds do.")
@click.option(
    "--only",
    type=click.Choice(sorted(_PLANS)),
    help="Deploy only the databases and indexes, or only the staged functions, as builds do.",
)
def deploy(project: str | None, *, yes: bool, only: str | None) -> None:
    """Deploy Carrel to your Google Cloud project, or update the deployment.

    The deployment is described in deployment.tfvars.json, which the first run creates by asking.
    After a failure, run the command again. If new functions fail the smoke test, the previous
    release is restored.
    """
    existing = deployment.load_deployment()
    chosen = existing or prompts.ask_for_deployment(project)
    if project not in {None, chosen.project}:
        raise CommandFailed(f"{FILE.name} names the project {chosen.project}, not {project}.")
    cloud = open_cloud(chosen)
    click.echo(f"Terraform {cloud.terraform.require_version()}, project {chosen.project}")
    if only is None:
        click.echo(_format_summary(chosen, budget=describe_budget(chosen, new=not existing)))
    prompts.confirm("Deploy?", yes=yes)
    if not existing:
        cloud = add_budget(cloud)
        deployment.save_deployment(cloud.deployment)
        click.echo(f"Wrote {FILE.name}, which describes the deployment and contains no secret.")
    plan.run_steps(cloud, _PLANS.get(only or "", plan.FULL_DEPLOY))
    if only != "indexes":
        url = cloud.terraform.read_outputs()[URL_OUTPUT]
        carrel = carrel_on_deployment("").rstrip()
        click.echo(_DEPLOYED_MESSAGE.format(url=url, carrel=carrel))


@click.command()
@click.option("--delete-data", is_flag=True, help="Also delete the databases and the texts.")
def destroy(*, delete_data: bool) -> None:
    """Remove the deployment. Databases and texts are kept unless you pass --delete-data."""
    chosen = deployment.load_deployment()
    if chosen is None:
        raise CommandFailed(f"There is no {FILE.name}: this checkout has no deployment.")
    data = (
        "Databases and texts are deleted too." if delete_data else "Databases and texts are kept."
    )
    click.echo(f"This removes Carrel from the project {chosen.project}. {data}")
    prompts.confirm_project(chosen.project)
    cloud = open_cloud(chosen)
    tear_down(cloud, data=delete_data)
    number = look_up_project_number(cloud.api, chosen.project)
    click.echo(_DESTROYED_MESSAGE.format(bucket=chosen.bucket, number=number, region=chosen.region))


@click.command()
@click.argument("url")
def smoke(url: str) -> None:
    """Test the gateway at URL as a client would, with the key in CARREL_KEY."""
    from infra.cloud.smoke import run_smoke_test

    key = os.environ.get("CARREL_KEY", "").strip()
    if not key:
        raise click.ClickException(
            "CARREL_KEY is not set. Create a key:"
            f" {carrel_on_deployment('keys create --user YOU --name terminal')}"
        )
    report = asyncio.run(run_smoke_test(url, key))
    for line in report.lines:
        click.echo(line, err=not report.passed)
    verdict = "The smoke test passed." if report.passed else "The smoke test failed."
    click.echo(verdict, err=not report.passed)
    sys.exit(not report.passed)


def open_cloud(chosen: Deployment) -> Cloud:
    """Connect to all services that a deployment needs.

    Raises:
        CommandFailed: This machine has no Google credentials or no Terraform, or the credentials
            give no access to the project.
    """
    from google.cloud.storage import Client

    from infra.build.bundles import DIST, stage
    from infra.cloud.bootstrap import build_backend
    from infra.cloud.bucket import Bucket
    from infra.cloud.environment import use_cloud_database
    from infra.cloud.google_api import GoogleApi, open_google_session
    from infra.cloud.secret_values import SecretValues
    from infra.cloud.smoke import run_smoke_test

    use_cloud_database()
    os.environ["GOOGLE_CLOUD_PROJECT"] = chosen.project  # Terraform's provider reads it too
    # Some APIs require a quota project with a person's sign-in, which does not contain one.
    # https://cloud.google.com/docs/authentication/troubleshoot-adc
    os.environ["GOOGLE_CLOUD_QUOTA_PROJECT"] = chosen.project
    terraform = Terraform(backend=build_backend(chosen))
    terraform.require_version()
    api = GoogleApi(open_google_session(chosen.project))
    look_up_project_number(api, chosen.project)
    return Cloud(
        deployment=chosen,
        variables=FILE,
        dist=DIST,
        api=api,
        bucket=Bucket(Client(project=chosen.project), chosen.bucket),
        secrets=SecretValues(api, chosen.project),
        terraform=terraform,
        stage=partial(stage, telemetry=chosen.exports_spans),
        smoke=run_smoke_test,
        ask=prompts.ask_for_secret,
        echo=click.echo,
        key=os.environ.get("CARREL_KEY", "").strip(),
    )


def describe_budget(chosen: Deployment, *, new: bool) -> str:
    """Describe when costs raise an alert.

    Args:
        chosen: The deployment.
        new: Whether the deployment is new, so that its billing account is not looked up yet.
    """
    if chosen.billing_account or (new and chosen.monthly_budget):
        amount = chosen.monthly_budget or _DEFAULT_BUDGET
        return (
            f"The billing account gets an e-mail when a month costs more than {amount}, in the"
            " account's currency."
        )
    return (
        "No budget is set, so nothing warns of costs. To set one, add billing_account to"
        f" {FILE.name}."
    )


def _format_summary(chosen: Deployment, *, budget: str) -> str:
    from infra.build.functions import functions

    return _SUMMARY_TEMPLATE.format(
        project=chosen.project,
        location=chosen.firestore_location,
        region=chosen.region,
        functions=len(functions()),
        budget=budget,
    )

"""`carrel deploy`, `carrel destroy` and `carrel smoke`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import Final

import click

from infra.cloud import release
from infra.cloud.deployment import EXAMPLE, FILE_NAME, Deployment, load_deployment
from infra.cloud.environment import find_gateway_url, use_cloud_database
from shared.core.installation import carrel_on_deployment

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
"""
_DESTROYED_MESSAGE: Final = """
Done. Terraform's state, the bundles and Google's copies of them remain, and cost some cents a
month. To delete them too:
  gcloud storage rm --recursive --all-versions gs://{bucket}
  gcloud storage rm --recursive --all-versions gs://gcf-v2-sources-{number}-{region}"""


@click.command()
@click.option("--yes", is_flag=True, help="Accept the costs without being asked, as builds do.")
@click.option("--staged", is_flag=True, help="Deploy what `stage` has written, as builds do.")
def deploy(*, yes: bool, staged: bool) -> None:
    """Deploy Carrel to your Google Cloud project, or update the deployment.

    The deployment is described in deployment.tfvars.json. After a failure, run the command again:
    it continues.
    """
    deployment = _require_deployment()
    cloud = _open_cloud(deployment)
    if not staged:
        click.echo(format_summary(deployment))
    if not yes:
        click.confirm("Deploy?", abort=True)
    url = release.deploy(cloud, staged=staged)
    carrel = carrel_on_deployment("").rstrip()
    click.echo(_DEPLOYED_MESSAGE.format(url=url, carrel=carrel))


@click.command()
@click.option("--delete-data", is_flag=True, help="Also delete the databases and the texts.")
def destroy(*, delete_data: bool) -> None:
    """Remove the deployment. Databases and texts are kept unless you pass --delete-data."""
    deployment = _require_deployment()
    data = (
        "Databases and texts are deleted too." if delete_data else "Databases and texts are kept."
    )
    click.echo(f"This removes Carrel from the project {deployment.project}. {data}")
    answer = click.prompt("Type the project id to continue", default="", show_default=False)
    if answer != deployment.project:
        raise click.ClickException("That is not the project id. Nothing was changed.")
    cloud = _open_cloud(deployment)
    release.destroy(cloud, data=delete_data)
    number = cloud.bucket.read_project_number()
    message = _DESTROYED_MESSAGE.format(
        bucket=cloud.bucket.name, number=number, region=deployment.region
    )
    click.echo(message)


@click.command()
@click.argument("url", required=False)
@click.option("--public", is_flag=True, help="Calls without a key are allowed there.")
def smoke(url: str | None, *, public: bool) -> None:
    """Test the gateway at URL as a client would, with the key in CARREL_KEY.

    Without URL, test the deployment of this checkout, by default with the smoke test's own key.
    """
    from infra.cloud.smoke import run_smoke_test

    key = os.environ.get("CARREL_KEY", "").strip()
    if url is None:
        from infra.cloud.secret_values import SecretValues
        from infra.cloud.smoke_key import obtain_smoke_key

        deployment = _require_deployment()
        _use_project(deployment.project)
        url = find_gateway_url()
        public = public or deployment.is_public
        key = key or obtain_smoke_key(deployment.project, SecretValues(deployment.project))
    if not key:
        raise click.ClickException(
            "CARREL_KEY is not set. Create a key:"
            f" {carrel_on_deployment('keys create --user YOU --name terminal')}"
        )
    report = asyncio.run(run_smoke_test(url, key, public=public))
    for line in report.lines:
        click.echo(line, err=not report.passed)
    verdict = "The smoke test passed." if report.passed else "The smoke test failed."
    click.echo(verdict, err=not report.passed)
    sys.exit(not report.passed)


def _require_deployment() -> Deployment:
    """Load the deployment of this checkout.

    Raises:
        ClickException: There is none, or its file is not valid.
    """
    deployment = load_deployment()
    if deployment is None:
        raise click.ClickException(
            f"There is no {FILE_NAME}, which describes the deployment."
            f" Run `cp {EXAMPLE} {FILE_NAME}` and edit the copy."
        )
    return deployment


def format_summary(deployment: Deployment) -> str:
    """Say what a deployment creates, what that costs, and whether costs raise an alert."""
    from infra.build.functions import functions

    budget = (
        "The billing account gets an e-mail when a month costs more than"
        f" {deployment.monthly_budget}, in the account's currency."
        if deployment.billing_account
        else "No budget is set, so nothing warns of costs. To set one, add billing_account to"
        f" {FILE_NAME}."
    )
    return _SUMMARY_TEMPLATE.format(
        project=deployment.project,
        location=deployment.firestore_location,
        region=deployment.region,
        functions=len(functions()),
        budget=budget,
    )


def ask_for_secret(name: str) -> str:
    """Read the value of a secret without echo, or the next line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(f"  {name} (not shown)", hide_input=True))
    return sys.stdin.readline()


def _open_cloud(deployment: Deployment) -> release.Cloud:
    """Connect to all services that a deployment needs.

    Raises:
        ClickException: This machine has no Google credentials.
    """
    from infra.build.bundles import stage
    from infra.cloud.bucket import Bucket
    from infra.cloud.secret_values import SecretValues
    from infra.cloud.smoke import run_smoke_test
    from infra.cloud.terraform import Terraform

    project = deployment.project
    _use_project(project)
    secrets = SecretValues(project)
    bucket = Bucket(project)
    return release.Cloud(
        deployment=deployment,
        bucket=bucket,
        secrets=secrets,
        terraform=Terraform(backend={"bucket": bucket.name, "prefix": "terraform"}),
        stage=partial(stage, telemetry=deployment.exports_spans),
        smoke=partial(run_smoke_test, public=deployment.is_public),
        ask=ask_for_secret,
        echo=click.echo,
        key=os.environ.get("CARREL_KEY", "").strip(),
    )


def _use_project(project: str) -> None:
    """Use the project for everything that this process and Terraform request from Google."""
    use_cloud_database()
    os.environ["GOOGLE_CLOUD_PROJECT"] = project  # Terraform's provider reads it too
    # Some APIs require a quota project with a person's sign-in, which does not contain one.
    # https://cloud.google.com/docs/authentication/troubleshoot-adc
    os.environ["GOOGLE_CLOUD_QUOTA_PROJECT"] = project

"""Creates the resources that functions need: the bucket, databases, indexes, secrets and grants.

These resources come before the functions, because a function does not start if its secret has no
value (https://cloud.google.com/functions/docs/configuring/secrets), and a query fails without its
index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from infra.cloud.bucket import STATE_PREFIX
from infra.cloud.databases import TERRAFORM_ADDRESSES, require_own_databases
from infra.cloud.errors import CommandFailed
from infra.cloud.secret_values import ACCESS_SECRETS, generate_access_secrets
from infra.cloud.services import look_up_project_number
from shared.core.installation import carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.cloud.cloud import Cloud
    from infra.cloud.deployment import Deployment

DATABASES: Final = (
    *TERRAFORM_ADDRESSES.values(),
    "google_firestore_index.carrel",
    "google_firestore_field.carrel",
)
"""The addresses of databases and indexes in Terraform's configuration."""
SECRETS: Final = ("google_secret_manager_secret.carrel",)
"""The addresses of secrets in Terraform's configuration."""
GRANTS: Final = (
    "google_project_iam_member.build",
    "google_artifact_registry_repository_iam_member.build",
    "google_secret_manager_secret_iam_member.function",
)
"""The addresses of the grants that builds and functions need when they start. A grant takes effect
only after some minutes."""


def build_backend(deployment: Deployment) -> Mapping[str, str]:
    """Build the configuration of Terraform's backend, which stores the state."""
    return {"bucket": deployment.bucket, "prefix": STATE_PREFIX}


def ensure_bucket(cloud: Cloud) -> None:
    """Create the bucket if it is missing, and initialize Terraform with its state in the bucket."""
    number = look_up_project_number(cloud.api, cloud.deployment.project)
    if cloud.bucket.ensure(number, cloud.deployment.region):
        cloud.echo(f"  created gs://{cloud.deployment.bucket}")
    cloud.terraform.init()


def create_databases(cloud: Cloud) -> None:
    """Create only the databases and indexes. Terraform waits until all indexes are ready."""
    cloud.terraform.init()
    require_own_databases(cloud)
    cloud.terraform.apply(cloud.variables, cloud.manifest, DATABASES)


def create_prerequisites(cloud: Cloud) -> None:
    """Create the databases, indexes, secrets and grants."""
    require_own_databases(cloud)
    cloud.terraform.apply(cloud.variables, cloud.manifest, (*DATABASES, *SECRETS, *GRANTS))


def fill_secrets(cloud: Cloud) -> None:
    """Add a value to each secret that has none.

    The value of ACCESS_SECRETS is random. The person at the terminal enters all other values.

    Raises:
        CommandFailed: The answer is empty or has unprintable characters.
    """
    if not cloud.secrets.has(ACCESS_SECRETS):
        cloud.secrets.add(ACCESS_SECRETS, generate_access_secrets())
        cloud.echo(f"  {ACCESS_SECRETS}: generated at random")
    for name in sorted(cloud.deployment.secrets):
        if not cloud.secrets.has(name):
            cloud.secrets.add(name, _ask_for_value(cloud, name))


def _ask_for_value(cloud: Cloud, name: str) -> str:
    """Ask the person at the terminal for the value of a secret.

    Raises:
        CommandFailed: The answer is empty or has unprintable characters.
    """
    value = cloud.ask(name).strip()
    if not value or not value.isprintable():
        project = cloud.deployment.project
        command = f"gcloud secrets versions add {name} --project {project} --data-file=-"
        raise CommandFailed(f"{name} has no value yet. Run `{carrel_deploy()}` or `{command}`.")
    return value

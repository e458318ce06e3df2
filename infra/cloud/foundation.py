"""What functions stand on: databases with their indexes, and secrets that have values.

Terraform makes these first, by themselves: a function whose secret has no value does not start
(https://cloud.google.com/functions/docs/configuring/secrets), and a query without its index fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from infra.cloud.bucket import STATE_PREFIX
from infra.cloud.databases import BY_NAME, expect_own_databases
from infra.cloud.failures import NotDone
from infra.cloud.secret_values import ACCESS_SECRETS, random_access_secrets
from infra.cloud.services import project_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.cloud.cloud import Cloud
    from infra.cloud.deployment import Deployment

DATABASES: Final = (
    *BY_NAME.values(),
    "google_firestore_index.carrel",
    "google_firestore_field.carrel",
)
SECRETS: Final = ("google_secret_manager_secret.carrel",)
RIGHTS: Final = (
    "google_project_iam_member.build",
    "google_artifact_registry_repository_iam_member.build",
    "google_secret_manager_secret_iam_member.function",
)
"""What builds and functions must be allowed before they start: it takes minutes to spread."""


def backend(deployment: Deployment) -> Mapping[str, str]:
    """Where Terraform keeps its state."""
    return {"bucket": deployment.bucket, "prefix": STATE_PREFIX}


def prepare_bucket(cloud: Cloud) -> None:
    """Make the bucket, and lead Terraform to its state there."""
    number = project_number(cloud.api, cloud.deployment.project)
    if cloud.bucket.make(number, cloud.deployment.region):
        cloud.say(f"  made gs://{cloud.deployment.bucket}")
    cloud.terraform.init()


def make_databases(cloud: Cloud) -> None:
    """Databases and indexes alone: Terraform waits until each index is ready."""
    cloud.terraform.init()
    expect_own_databases(cloud)
    cloud.terraform.apply(cloud.variables, cloud.manifest, DATABASES)


def make_foundation(cloud: Cloud) -> None:
    """Databases, indexes and secrets, and the rights that take a while to hold."""
    expect_own_databases(cloud)
    cloud.terraform.apply(cloud.variables, cloud.manifest, (*DATABASES, *SECRETS, *RIGHTS))


def fill_secrets(cloud: Cloud) -> None:
    """Give each secret in use a value: ACCESS_SECRETS at random, the others as they are told.

    Raises:
        NotDone: One was not told.
    """
    if not cloud.secrets.has(ACCESS_SECRETS):
        cloud.secrets.add(ACCESS_SECRETS, random_access_secrets())
        cloud.say(f"  {ACCESS_SECRETS}: made at random")
    for name in sorted(cloud.deployment.secrets):
        if not cloud.secrets.has(name):
            cloud.secrets.add(name, _told(cloud, name))


def _told(cloud: Cloud, name: str) -> str:
    value = cloud.ask(name).strip()
    if not value or not value.isprintable():
        project = cloud.deployment.project
        how = f"gcloud secrets versions add {name} --project {project} --data-file=-"
        raise NotDone(f"{name} has no value yet. Next: carrel deploy, or {how}")
    return value

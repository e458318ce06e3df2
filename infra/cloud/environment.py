"""Finds the deployment, and sets its environment variables and secrets, for commands with --cloud.

Variables that are already set keep their values. Only FIRESTORE_EMULATOR_HOST is removed, because
Google's client would go there instead of the cloud.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from infra.cloud.deployment import FILE, FILE_NAME, load_deployment
from infra.cloud.secret_values import ACCESS_SECRETS, SecretValues
from infra.local import local_database
from shared.core.target import CLOUD, choose_target, is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path


def use_deployment(*, embedding: bool, path: Path = FILE) -> None:
    """Use the project in GOOGLE_CLOUD_PROJECT, or else this checkout's deployment.

    Args:
        embedding: Whether the command may embed texts. The first embedding determines the model of
            the whole knowledge base, so the provider must be set explicitly.
        path: The file that describes this checkout's deployment.

    Raises:
        ClickException: The project or the provider is not set.
    """
    use_cloud_database()
    deployment = load_deployment(path)
    if deployment and os.environ.get("GOOGLE_CLOUD_PROJECT", deployment.project) == (
        deployment.project
    ):
        os.environ.update({**deployment.environment, **os.environ})
    required = ["GOOGLE_CLOUD_PROJECT", *(["EMBEDDING_PROVIDER"] if embedding else [])]
    if missing := [name for name in required if name not in os.environ]:
        raise click.ClickException(
            f"With --cloud, set {' and '.join(missing)} in the environment, or run this in the"
            f" checkout that you deployed from, which has {FILE_NAME}."
        )
    # Firestore and Vertex AI may require a quota project with a person's sign-in.
    # https://cloud.google.com/docs/authentication/troubleshoot-adc
    os.environ.setdefault("GOOGLE_CLOUD_QUOTA_PROJECT", os.environ["GOOGLE_CLOUD_PROJECT"])


def use_cloud_database() -> None:
    """Use Cloud Firestore, with the credentials of this process."""
    os.environ.pop("FIRESTORE_EMULATOR_HOST", None)
    choose_target(CLOUD)


def find_gateway_url(path: Path = FILE) -> str:
    """Return the URL of the gateway in the project GOOGLE_CLOUD_PROJECT.

    The deployment is that of this checkout if the project is the same, or else that of the last
    good release in the project's bucket.
    """
    from infra.cloud.bucket import Bucket  # its client is slow to import

    project = os.environ["GOOGLE_CLOUD_PROJECT"]
    deployment = load_deployment(path)
    if deployment is None or deployment.project != project:
        deployment = Bucket(project).load_deployment()
    if deployment.public_url:
        return deployment.public_url
    number = Bucket(project).read_project_number()
    return f"https://carrel-gateway-{number}.{deployment.region}.run.app"


def set_access_secrets(open_secrets: Callable[[str], SecretValues] = SecretValues) -> None:
    """Set ACCESS_SECRETS unless it is set, so that this process signs and hashes as the gateway.

    Local runs store the secret in a file. A deployment's secret always comes from Secret Manager,
    so that a file on some machine can never become the secret of a deployment.
    """
    if is_local():
        local_database.set_local_secrets()
    elif not os.environ.get(ACCESS_SECRETS):
        os.environ[ACCESS_SECRETS] = open_secrets(os.environ["GOOGLE_CLOUD_PROJECT"]).read(
            ACCESS_SECRETS
        )


def set_job_secrets(
    names: Collection[str], open_secrets: Callable[[str], SecretValues] = SecretValues
) -> None:
    """Set the secrets that the functions of these jobs use, unless they are set.

    A secret without a value in Secret Manager is not in use and stays unset.
    """
    from infra.build.functions import functions  # this import is slow: it loads all tools and jobs

    if is_local():
        return
    declared = {
        secret for function in functions() if function.name in names for secret in function.secrets
    }
    if missing := sorted(name for name in declared if not os.environ.get(name)):
        values = open_secrets(os.environ["GOOGLE_CLOUD_PROJECT"])
        os.environ.update({name: values.read(name) for name in missing if values.has(name)})

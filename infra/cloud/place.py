"""Where commands with --cloud work: on what this checkout deployed, or as the environment says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from infra.cloud.deployment import NAME, PATH, read
from infra.cloud.failures import NotDone
from infra.cloud.google_api import GoogleApi, signed_in
from infra.cloud.secret_values import ACCESS_SECRETS, SecretValues
from infra.local import local_database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path


def work_in_the_cloud(*, embedding: bool, path: Path = PATH) -> None:
    """Point this process at the project in GOOGLE_CLOUD_PROJECT, or else at the one deployed here.

    Args:
        embedding: Whether the command may embed: what is embedded first decides the model of the
            whole base, so that the provider must not be left to chance.
        path: What is deployed here, if anything.

    Raises:
        NotDone: Nobody says which project it is, or which provider.
    """
    os.environ.pop("FIRESTORE_EMULATOR_HOST", None)
    found = read(path)
    if found and os.environ.get("GOOGLE_CLOUD_PROJECT", found.project) == found.project:
        os.environ.update({**found.environment, **os.environ})
    wanted = ["GOOGLE_CLOUD_PROJECT", *(["EMBEDDING_PROVIDER"] if embedding else [])]
    if unset := [name for name in wanted if name not in os.environ]:
        said = " and ".join(unset)
        raise NotDone(
            f"For --cloud, set {said} in the environment, or run this where {NAME} is:"
            " `carrel deploy` writes it."
        )
    # Of a person's sign-in, Firestore and Vertex AI may ask on whose quota it is.
    # https://cloud.google.com/docs/authentication/troubleshoot-adc
    os.environ.setdefault("GOOGLE_CLOUD_QUOTA_PROJECT", os.environ["GOOGLE_CLOUD_PROJECT"])


def _in_the_cloud(project: str) -> SecretValues:
    return SecretValues(GoogleApi(signed_in(project)), project)


def share_secret(secrets_of: Callable[[str], SecretValues] = _in_the_cloud) -> None:
    """Have this process sign and hash as the gateway does, unless it is told its secrets.

    On a laptop they are in a file. A deployment's are asked of Secret Manager: no machine's file
    may become the secret of a deployment.
    """
    if "FIRESTORE_EMULATOR_HOST" in os.environ:
        local_database.share_secret()
    elif not os.environ.get(ACCESS_SECRETS):
        os.environ[ACCESS_SECRETS] = secrets_of(os.environ["GOOGLE_CLOUD_PROJECT"]).read(
            ACCESS_SECRETS
        )


def share_secrets_of_jobs(
    names: Collection[str], secrets_of: Callable[[str], SecretValues] = _in_the_cloud
) -> None:
    """Have this process run jobs as their functions do, with the secrets that are in use.

    Terraform makes only those; what this process is told already, it keeps.
    """
    from infra.build.functions import functions  # which reads every tool and job

    if "FIRESTORE_EMULATOR_HOST" in os.environ:
        return
    declared = {secret for each in functions() if each.name in names for secret in each.secrets}
    if unset := sorted(name for name in declared if not os.environ.get(name)):
        values = secrets_of(os.environ["GOOGLE_CLOUD_PROJECT"])
        os.environ.update({name: values.read(name) for name in unset if values.has(name)})

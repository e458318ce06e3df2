"""Taking a deployment down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from infra.cloud.deployment import write
from infra.cloud.foundation import DATABASES, SECRETS
from infra.cloud.release import good_or_staged

if TYPE_CHECKING:
    from infra.cloud.cloud import Cloud

TEXTS: Final = ("google_storage_bucket.texts",)
_STAYS: Final = re.compile(
    r"data\."
    r"|google_(firestore_(database|index|field)|storage_bucket|secret_manager_secret)\."
    r"|google_project_service\."
)
"""What stays unless the data go: databases, texts, the secrets that keys and sign-ins rest on, and
Google's APIs, which others may use."""


def destroy(cloud: Cloud, *, data: bool) -> None:
    """Delete everything that Terraform made; without `data`, but for what `stays`."""
    cloud.terraform.init()
    manifest = good_or_staged(cloud)
    if data:
        variables = cloud.dist / "destroyed.tfvars.json"
        write(cloud.deployment.model_copy(update={"protect_data": False}), variables)
        # Databases, texts and secrets refuse to be deleted until they are told otherwise.
        cloud.terraform.apply(variables, manifest, (*DATABASES, *SECRETS, *TEXTS))
        cloud.terraform.destroy(variables, manifest)
    elif doomed := [each for each in cloud.terraform.addresses() if not stays(each)]:
        cloud.terraform.destroy(cloud.variables, manifest, doomed)


def stays(address: str) -> bool:
    """Whether an address in Terraform's state is of what stays, or was only read."""
    return _STAYS.match(address) is not None

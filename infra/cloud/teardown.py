"""Removes a deployment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from infra.cloud.bootstrap import DATABASES, SECRETS
from infra.cloud.deployment import save_deployment
from infra.cloud.release import ensure_manifest

if TYPE_CHECKING:
    from infra.cloud.cloud import Cloud

TEXTS: Final = ("google_storage_bucket.texts",)
"""The address of the bucket with texts in Terraform's configuration."""
_PRESERVED: Final = re.compile(
    r"data\."
    r"|google_(firestore_(database|index|field)|storage_bucket|secret_manager_secret)\."
    r"|google_project_service\."
)
"""The addresses that are preserved unless data is deleted: those of databases, texts, the secrets
on which keys and sign-ins depend, and Google's APIs, which other programs may use."""


def destroy(cloud: Cloud, *, data: bool) -> None:
    """Delete all of Terraform's resources or, without `data`, only those not in `_PRESERVED`."""
    cloud.terraform.init()
    manifest = ensure_manifest(cloud)
    if data:
        variables = cloud.dist / "destroyed.tfvars.json"
        save_deployment(cloud.deployment.model_copy(update={"protect_data": False}), variables)
        # Databases, texts and secrets cannot be deleted until their protection is removed.
        cloud.terraform.apply(variables, manifest, (*DATABASES, *SECRETS, *TEXTS))
        cloud.terraform.destroy(variables, manifest)
    elif addresses := [name for name in cloud.terraform.list_addresses() if not is_preserved(name)]:
        cloud.terraform.destroy(cloud.variables, manifest, addresses)


def is_preserved(address: str) -> bool:
    """Return whether an address belongs to a preserved resource or to a data source."""
    return _PRESERVED.match(address) is not None

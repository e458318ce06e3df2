"""Checks existing databases before Terraform creates Carrel's databases.

https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases
https://registry.terraform.io/providers/hashicorp/google/6.50.0/docs/resources/firestore_database
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from infra.cloud.deployment import FILE_NAME
from infra.cloud.errors import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.cloud.cloud import Cloud
    from infra.cloud.deployment import Deployment

TERRAFORM_ADDRESSES: Final = {
    "(default)": "google_firestore_database.knowledge",
    "access": "google_firestore_database.access",
}
"""The addresses of Carrel's databases in Terraform's configuration, by database name."""
NATIVE: Final = "FIRESTORE_NATIVE"
"""The type of a database in native mode, which Carrel requires."""


def require_own_databases(cloud: Cloud) -> None:
    """Require that existing databases with Carrel's names are compatible and in Terraform's state.

    Terraform cannot create a database that exists. If a database in Terraform's state is at another
    location than configured, Terraform would delete the database and create it again, empty.

    Raises:
        CommandFailed: A database is in another mode or at another location, or Carrel did not
            create it. The message says what to do.
    """
    addresses = cloud.terraform.list_addresses()
    for name, address in TERRAFORM_ADDRESSES.items():
        database = cloud.api.find("firestore", f"v1/{_get_full_name(cloud, name)}")
        if database:
            _require_compatible(name, database, cloud.deployment)
            if address not in addresses:
                raise CommandFailed(_explain_import(cloud, name, address))


def _require_compatible(name: str, database: Mapping[str, Any], deployment: Deployment) -> None:
    """Check the mode and the location of an existing database.

    Raises:
        CommandFailed: Carrel cannot use the database. The message says what to do.
    """
    if database.get("type") != NATIVE:
        raise CommandFailed(f"The database {name} is not in native mode. Choose another project.")
    location = database.get("locationId")
    if location != deployment.firestore_location:
        raise CommandFailed(
            f"The database {name} is in {location} and cannot be moved. Write"
            f' "firestore_location": "{location}" in {FILE_NAME}.'
        )


def _explain_import(cloud: Cloud, name: str, address: str) -> str:
    """Explain how to use a database that Carrel did not create."""
    command = cloud.terraform.format_import_command(
        cloud.variables, cloud.manifest, address, _get_full_name(cloud, name)
    )
    return (
        f"This project has a database {name} that Carrel did not create. To use it, run the command"
        " below. Collections of the same names would mix with Carrel's, and some fields would get"
        " other indexes. Otherwise choose another project.\n"
        f"Next: {command}"
    )


def _get_full_name(cloud: Cloud, name: str) -> str:
    return f"projects/{cloud.deployment.project}/databases/{name}"

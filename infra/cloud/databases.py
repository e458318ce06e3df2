"""Databases that a project has already, before Terraform makes ours.

https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases
https://registry.terraform.io/providers/hashicorp/google/6.50.0/docs/resources/firestore_database
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from infra.cloud.deployment import NAME
from infra.cloud.failures import NotDone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.cloud.cloud import Cloud
    from infra.cloud.deployment import Deployment

BY_NAME: Final = {
    "(default)": "google_firestore_database.knowledge",
    "access": "google_firestore_database.access",
}
"""Our databases, and what Terraform calls each."""
NATIVE: Final = "FIRESTORE_NATIVE"


def expect_own_databases(cloud: Cloud) -> None:
    """See that databases which are there already are those that Terraform knows.

    A project may have had one before. Terraform would try to make it again; once it knows of one in
    another place, it would delete that, to make it here.

    Raises:
        NotDone: One is not; the message says how to take it over.
    """
    known = cloud.terraform.addresses()
    for name, address in BY_NAME.items():
        found = cloud.api.find("firestore", f"v1/{_full_name(cloud, name)}")
        if found:
            _expect_fitting(name, found, cloud.deployment)
            if address not in known:
                raise NotDone(_how_to_import(cloud, name, address))


def _expect_fitting(name: str, found: Mapping[str, Any], deployment: Deployment) -> None:
    if found.get("type") != NATIVE:
        raise NotDone(f"The database {name} is of another type. Next: choose another project")
    place = found.get("locationId")
    if place != deployment.firestore_location:
        how = f'Next: write "firestore_location": "{place}" in {NAME}'
        raise NotDone(f"The database {name} is in {place}, and cannot be moved. {how}")


def _how_to_import(cloud: Cloud, name: str, address: str) -> str:
    command = cloud.terraform.importing(
        cloud.variables, cloud.manifest, address, _full_name(cloud, name)
    )
    return (
        f"This project has a database {name} already, which Carrel did not make. To have Carrel"
        " use it, beside the data that it holds (collections of the same names would mix, and some"
        " fields get other indexes), run the command below; else choose another project.\n"
        f"Next: {command}"
    )


def _full_name(cloud: Cloud, name: str) -> str:
    return f"projects/{cloud.deployment.project}/databases/{name}"

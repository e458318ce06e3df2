"""The resources that Terraform created, grouped for tests: functions, and the roles of accounts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tests.support.terraform_deployment import PROJECT, Resource


class Grant(NamedTuple):
    """A role of a member on a target: a database, service, secret or bucket."""

    member: str
    role: str
    target: str


@dataclass(frozen=True)
class State:
    """The resources of a deployment.

    Attributes:
        functions: The entries of the manifest's functions, by key.
        resources: The created resources, by type.
    """

    functions: dict[str, dict[str, Any]]
    resources: dict[str, list[Resource]]

    @classmethod
    def group(cls, functions: dict[str, dict[str, Any]], resources: Iterable[Resource]) -> Self:
        """Group the resources by type."""
        resources_by_kind: dict[str, list[Resource]] = defaultdict(list)
        for resource in resources:
            resources_by_kind[resource.kind].append(resource)
        return cls(functions, resources_by_kind)

    def list_keys(self, kind: str) -> list[str]:
        """Return the keys of the functions of a kind: `gateway`, `tool` or `job`."""
        return [key for key, function in self.functions.items() if function["kind"] == kind]

    def get_functions(self) -> dict[str, dict[str, Any]]:
        """Return the values of the created functions, by key."""
        functions = self.resources["google_cloudfunctions2_function"]
        return {str(resource.key): resource.block for resource in functions}

    def get_grants(self, kind: str, attribute: str) -> set[Grant]:
        """Return the grants of resources of a type, in which `attribute` names the target."""
        return {
            Grant(resource.values["member"], resource.values["role"], resource.values[attribute])
            for resource in self.resources[kind]
        }

    def get_database_roles(self) -> set[Grant]:
        """Return the grants of roles on databases, except those of the deploying account."""
        return {
            Grant(resource.values["member"], resource.values["role"], _parse_database(resource))
            for resource in self.resources["google_project_iam_member"]
            if resource.values["role"].startswith("roles/datastore.")
            and resource.name != "deployer"
        }


def format_member(name: str) -> str:
    """Return the IAM member of a service account of Carrel."""
    return f"serviceAccount:carrel-{name}@{PROJECT}.iam.gserviceaccount.com"


def _parse_database(grant: Resource) -> str:
    """Return the database in the condition of a grant."""
    [condition] = grant.values["condition"]
    is_database = 'resource.type == "firestore.googleapis.com/Database" && resource.name == '
    assert condition["expression"].startswith(is_database)
    name = condition["expression"].removeprefix(is_database).strip('"')
    return str(name.removeprefix(f"projects/{PROJECT}/databases/"))

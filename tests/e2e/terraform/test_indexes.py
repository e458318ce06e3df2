"""Terraform creates exactly the indexes and expiry rules of the checked-in files."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import pytest

from infra.local.local_database import INDEX_FILES
from tests.e2e.terraform.conftest import ALL_OPTIONS
from tests.support.manifests import make_manifest
from tests.support.terraform_deployment import Deployment
from tests.support.terraform_state import State

pytestmark = pytest.mark.slow

DEFAULT_DIMENSION = "768"
"""The length of vectors if the deployment does not configure another. The files leave it out."""


class Index(NamedTuple):
    """A composite index.

    Attributes:
        database: The database.
        collection: The collection group.
        scope: Whether the index covers a collection or the collection group.
        fields: Each field with its order, array mode or vector dimension.
    """

    database: str
    collection: str
    scope: str
    fields: tuple[tuple[str, str], ...]


class FieldOverride(NamedTuple):
    """The exemption of a field from the automatic indexes.

    Attributes:
        database: The database.
        collection: The collection group.
        field: The field.
        expires: Whether Firestore deletes documents at the time in the field.
        indexes: The scope and the order or array mode of each index that the field has.
    """

    database: str
    collection: str
    field: str
    expires: bool
    indexes: frozenset[tuple[str, str]]


def read_declared_entries(section: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a section of the files, each with its database.

    Args:
        section: `indexes` or `fieldOverrides`.
    """
    contents = (
        (database, json.loads(path.read_text("utf-8"))) for database, path in INDEX_FILES.items()
    )
    return [(database, entry) for database, content in contents for entry in content[section]]


def read_declared_fields(index: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return each field of a declared index with its order, array mode or vector dimension.

    Firestore inserts the document's name before a vector, so the result contains it, too.
    """
    fields = [
        (
            field["fieldPath"],
            field.get("order") or field.get("arrayConfig") or DEFAULT_DIMENSION,
        )
        for field in index["fields"]
    ]
    *first_fields, (last_path, last_kind) = fields
    if last_kind != DEFAULT_DIMENSION:
        return tuple(fields)
    return (*first_fields, ("__name__", "ASCENDING"), (last_path, last_kind))


def read_created_fields(index: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return each field of a created index with its order, array mode or vector dimension."""
    return tuple(
        (
            field["field_path"],
            field["order"] or field["array_config"] or str(field["vector_config"][0]["dimension"]),
        )
        for field in index["fields"]
    )


def test_exactly_the_declared_indexes_are_created(state: State) -> None:
    declared = Counter(
        Index(database, index["collectionGroup"], index["queryScope"], read_declared_fields(index))
        for database, index in read_declared_entries("indexes")
    )
    indexes = [resource.values for resource in state.resources["google_firestore_index"]]
    created = Counter(
        Index(
            index["database"],
            index["collection"],
            index["query_scope"],
            read_created_fields(index),
        )
        for index in indexes
    )
    assert created == declared


def test_exactly_the_declared_overrides_are_created(state: State) -> None:
    declared = Counter(
        FieldOverride(
            database,
            field["collectionGroup"],
            field["fieldPath"],
            expires=field.get("ttl", False),
            indexes=frozenset(
                (index["queryScope"], index.get("order") or index["arrayConfig"])
                for index in field["indexes"]
            ),
        )
        for database, field in read_declared_entries("fieldOverrides")
    )
    created = Counter(
        FieldOverride(
            resource.values["database"],
            resource.values["collection"],
            resource.values["field"],
            expires=bool(resource.values["ttl_config"]),
            indexes=frozenset(
                (index["query_scope"], index["order"] or index["array_config"])
                for index in resource.values["index_config"][0]["indexes"]
            ),
        )
        for resource in state.resources["google_firestore_field"]
    )
    assert created == declared


def test_indexes_have_readable_names(state: State) -> None:
    names = {resource.key for resource in state.resources["google_firestore_index"]}
    assert {
        "(default) chunks: facets CONTAINS, embedding VECTOR",
        "(default) documents of all: status ASCENDING, next_at ASCENDING",
    } <= names


def test_another_dimension_changes_vector_indexes_and_settings(deployment: Deployment) -> None:
    changes = deployment.plan_changes(make_manifest(), **ALL_OPTIONS, embedding_dimension=1536)
    changed_indexes = {
        f'google_firestore_index.carrel["{resource.key}"]'
        for resource in deployment.read_resources()
        if resource.kind == "google_firestore_index" and str(resource.key).endswith("VECTOR")
    }
    # Another test compares the indexes, so it suffices here that no vector index is missing.
    vector_index_count = sum(
        "vectorConfig" in index["fields"][-1] for _, index in read_declared_entries("indexes")
    )
    assert len(changed_indexes) == vector_index_count
    changed_functions = {
        f'google_cloudfunctions2_function.carrel["{key}"]'
        for key, function in make_manifest()["functions"].items()
        if "EMBEDDING_DIMENSION" in function["settings"]
    }
    assert changes.keys() == changed_indexes | changed_functions


@pytest.mark.parametrize(
    ("protect_data", "protection"),
    [
        pytest.param(True, "DELETE_PROTECTION_ENABLED", id="protected"),
        pytest.param(False, "DELETE_PROTECTION_DISABLED", id="unprotected"),
    ],
)
def test_databases_are_protected_if_configured(
    deployment: Deployment, *, protect_data: bool, protection: str
) -> None:
    deployment.apply(make_manifest(), **ALL_OPTIONS, protect_data=protect_data)
    databases = [
        resource.values
        for resource in deployment.read_resources()
        if resource.kind == "google_firestore_database"
    ]
    assert {database["name"] for database in databases} == {"(default)", "access"}
    for database in databases:
        assert database["delete_protection_state"] == protection
        assert database["type"] == "FIRESTORE_NATIVE"
        assert database["point_in_time_recovery_enablement"] == "POINT_IN_TIME_RECOVERY_ENABLED"

"""Indexes and expiry rules are those of the checked files."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from infra.build.discovery import ROOT
from tests.e2e.terraform.conftest import EVERYTHING
from tests.support.manifests import manifest

if TYPE_CHECKING:
    from tests.support.terraform_deployment import Deployment
    from tests.support.terraform_state import State

pytestmark = pytest.mark.slow

FILES = {
    "(default)": ROOT / "firestore.indexes.json",
    "access": ROOT / "infra" / "build" / "access.indexes.json",
}


def declared(part: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of the files with their databases."""
    read = ((database, json.loads(path.read_text("utf-8"))) for database, path in FILES.items())
    return [(database, entry) for database, file in read for entry in file[part]]


def declared_fields(index: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields of an index, with the name that Firestore inserts before a vector."""
    kinds = [
        (field["fieldPath"], field.get("order") or field.get("arrayConfig") or "768")
        for field in index["fields"]
    ]
    path, last = kinds[-1]
    return (*kinds[:-1], ("__name__", "ASCENDING"), (path, last)) if last == "768" else (*kinds,)


def created_fields(index: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the fields of an index of the state."""
    return tuple(
        (
            field["field_path"],
            field["order"] or field["array_config"] or str(field["vector_config"][0]["dimension"]),
        )
        for field in index["fields"]
    )


def test_exactly_the_declared_indexes_are_created(state: State) -> None:
    expected = Counter(
        (database, index["collectionGroup"], index["queryScope"], declared_fields(index))
        for database, index in declared("indexes")
    )
    indexes = [resource.values for resource in state.resources["google_firestore_index"]]
    counts = Counter(
        (
            resource["database"],
            resource["collection"],
            resource["query_scope"],
            created_fields(resource),
        )
        for resource in indexes
    )
    assert counts == expected


def test_exactly_the_declared_overrides_are_created(state: State) -> None:
    expected = Counter(
        (
            database,
            field["collectionGroup"],
            field["fieldPath"],
            field.get("ttl", False),
            frozenset((index["queryScope"], index["order"]) for index in field["indexes"]),
        )
        for database, field in declared("fieldOverrides")
    )
    counts = Counter(
        (
            resource.values["database"],
            resource.values["collection"],
            resource.values["field"],
            bool(resource.values["ttl_config"]),
            frozenset(
                (index["query_scope"], index["order"])
                for index in resource.values["index_config"][0]["indexes"]
            ),
        )
        for resource in state.resources["google_firestore_field"]
    )
    assert counts == expected


def test_indexes_have_readable_names(state: State) -> None:
    names = {resource.key for resource in state.resources["google_firestore_index"]}
    assert {
        "(default) chunks: facets CONTAINS, embedding VECTOR",
        "(default) documents of all: status ASCENDING, next_at ASCENDING",
    } <= names


def test_another_dimension_changes_vector_indexes_and_settings(
    deployment: Deployment,
) -> None:
    changes = deployment.changes(manifest(), **EVERYTHING, embedding_dimension=1536)
    indexes = {
        f'google_firestore_index.carrel["{resource.key}"]'
        for resource in deployment.resources()
        if resource.kind == "google_firestore_index" and str(resource.key).endswith("VECTOR")
    }
    vectors = [index for _, index in declared("indexes") if "vectorConfig" in index["fields"][-1]]
    assert len(indexes) == len(vectors)
    functions = {
        f'google_cloudfunctions2_function.carrel["{key}"]'
        for key, function in manifest()["functions"].items()
        if "VERTEX_DIMENSION" in function["settings"]
    }
    assert changes.keys() == indexes | functions


@pytest.mark.parametrize(
    ("protect", "expected"),
    [
        (True, "DELETE_PROTECTION_ENABLED"),
        (False, "DELETE_PROTECTION_DISABLED"),
    ],
)
def test_databases_are_protected_by_default(
    deployment: Deployment, *, protect: bool, expected: str
) -> None:
    deployment.apply(manifest(), **EVERYTHING, protect_data=protect)
    databases = {
        resource.values["name"]: (
            resource.values["delete_protection_state"],
            resource.values["type"],
            resource.values["point_in_time_recovery_enablement"],
        )
        for resource in deployment.resources()
        if resource.kind == "google_firestore_database"
    }
    settings = (expected, "FIRESTORE_NATIVE", "POINT_IN_TIME_RECOVERY_ENABLED")
    assert databases == {"(default)": settings, "access": settings}

"""A deployment changes only what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.cloud.bootstrap import DATABASES, SECRETS
from tests.e2e.terraform.conftest import EVERYTHING
from tests.support.manifests import READER, function, manifest, real_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.terraform_deployment import Deployment

pytestmark = pytest.mark.slow

UNPROTECTED = {**EVERYTHING, "protect_data": False}


def test_applying_again_changes_nothing(small: Deployment) -> None:
    assert small.changes(manifest(), **EVERYTHING) == {}


def test_applying_all_functions_again_changes_nothing(whole: Deployment) -> None:
    assert whole.changes(real_manifest(), **EVERYTHING) == {}


def test_a_new_bundle_changes_only_its_function(small: Deployment) -> None:
    new = manifest()
    new["functions"]["search-kb"]["bundle"] = "bundles/search-kb-fedcba9876543210.zip"
    changes = small.changes(new, **EVERYTHING)
    assert changes == {'google_cloudfunctions2_function.carrel["search-kb"]': ["update"]}


def test_a_new_tool_changes_only_the_gateway(small: Deployment) -> None:
    new = manifest()
    new["functions"]["list-tags"] = function("tool", "list_tags", effect="read", databases=READER)
    changes = small.changes(new, **EVERYTHING)
    changed = {name for name, actions in changes.items() if actions == ["update"]}
    assert changed == {'google_cloudfunctions2_function.carrel["gateway"]'}
    created = {name for name, actions in changes.items() if actions == ["create"]}
    assert changes.keys() - changed == created
    assert all('["list-tags' in name for name in created)
    assert {"google_cloud_run_v2_service_iam_member", "google_cloudfunctions2_function"} < {
        name.partition(".")[0] for name in created
    }


def test_prerequisites_can_be_created_separately(fresh: Deployment, tmp_path: Path) -> None:
    deployment = fresh.copied(tmp_path)
    deployment.apply(real_manifest(), *DATABASES, *SECRETS, **EVERYTHING)
    assert {
        "google_project",
        "google_project_service",
        "google_firestore_database",
        "google_firestore_field",
        "google_firestore_index",
        "google_secret_manager_secret",
    } >= {resource.kind for resource in deployment.resources()}
    assert "google_secret_manager_secret" in {resource.kind for resource in deployment.resources()}


def test_protected_data_survives_destroy(deployment: Deployment) -> None:
    result = deployment.destroy(manifest(), **EVERYTHING)
    assert "delete_protection_state is DELETE_PROTECTION_ENABLED" in result.stderr
    remaining_kinds = {resource.kind for resource in deployment.resources()} - {
        "google_project_service"
    }
    assert {"google_firestore_database", "google_secret_manager_secret"} <= remaining_kinds
    assert "google_cloudfunctions2_function" not in remaining_kinds


def test_unprotected_data_is_destroyed(deployment: Deployment) -> None:
    deployment.apply(manifest(), **UNPROTECTED)
    result = deployment.destroy(manifest(), **UNPROTECTED)
    assert result.stderr == ""
    assert "Destroy complete!" in result.stdout


def test_without_all_users_the_gateway_has_no_public_invoker(small: Deployment) -> None:
    changes = small.changes(manifest(), **{**EVERYTHING, "grant_all_users": False})
    invoker = 'google_cloud_run_v2_service_iam_member.invoker["gateway"]'
    assert changes == {invoker: ["delete"]}

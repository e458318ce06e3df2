"""Terraform changes only resources whose declaration changed, and protects data."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cloud.release import DATA
from tests.e2e.terraform.conftest import ALL_OPTIONS
from tests.support.manifests import READER, build_real_manifest, make_function, make_manifest
from tests.support.terraform_deployment import Deployment

pytestmark = pytest.mark.slow

OPTIONS_WITHOUT_PROTECTION = {**ALL_OPTIONS, "protect_data": False}


def test_applying_again_changes_nothing(small_deployment: Deployment) -> None:
    assert small_deployment.plan_changes(make_manifest(), **ALL_OPTIONS) == {}


def test_applying_all_functions_again_changes_nothing(full_deployment: Deployment) -> None:
    assert full_deployment.plan_changes(build_real_manifest(), **ALL_OPTIONS) == {}


def test_a_new_bundle_changes_only_its_function(small_deployment: Deployment) -> None:
    new_manifest = make_manifest()
    new_manifest["functions"]["search-kb"]["bundle"] = "bundles/search-kb-fedcba9876543210.zip"
    changes = small_deployment.plan_changes(new_manifest, **ALL_OPTIONS)
    assert changes == {'google_cloudfunctions2_function.carrel["search-kb"]': ["update"]}


def test_a_new_tool_changes_only_the_gateway(small_deployment: Deployment) -> None:
    new_manifest = make_manifest()
    new_manifest["functions"]["list-tags"] = make_function(
        "tool", "list_tags", effect="read", databases=READER
    )
    changes = small_deployment.plan_changes(new_manifest, **ALL_OPTIONS)
    updated_names = {name for name, actions in changes.items() if actions == ["update"]}
    assert updated_names == {'google_cloudfunctions2_function.carrel["gateway"]'}
    created_names = {name for name, actions in changes.items() if actions == ["create"]}
    assert changes.keys() - updated_names == created_names
    assert all('["list-tags' in name for name in created_names)
    assert {"google_cloud_run_v2_service_iam_member", "google_cloudfunctions2_function"} < {
        name.partition(".")[0] for name in created_names
    }


def test_spans_for_google_need_a_role_and_two_apis(full_deployment: Deployment) -> None:
    settings = {**ALL_OPTIONS["settings"], "TELEMETRY": "gcp"}
    options = {**ALL_OPTIONS, "settings": settings}
    changes = full_deployment.plan_changes(build_real_manifest(), **options)
    created_names = {name for name, actions in changes.items() if actions == ["create"]}
    assert created_names == {
        'google_project_service.carrel["cloudtrace"]',
        'google_project_service.carrel["telemetry"]',
        *(
            f'google_project_iam_member.function["{key} roles/telemetry.tracesWriter"]'
            for key in build_real_manifest()["functions"]
        ),
    }
    assert not [name for name, actions in changes.items() if "delete" in actions]


def test_prerequisites_can_be_created_separately(
    initialized_deployment: Deployment, tmp_path: Path
) -> None:
    deployment = initialized_deployment.copy_to(tmp_path)
    deployment.apply(build_real_manifest(), *DATA, **ALL_OPTIONS)
    kinds = {resource.kind for resource in deployment.read_resources()}
    assert kinds <= {
        "google_project",
        "google_project_service",
        "google_firestore_database",
        "google_firestore_field",
        "google_firestore_index",
        "google_secret_manager_secret",
    }
    assert "google_secret_manager_secret" in kinds


def test_protected_data_survives_destroy(deployment: Deployment) -> None:
    result = deployment.destroy(make_manifest(), **ALL_OPTIONS)
    assert "delete_protection_state is DELETE_PROTECTION_ENABLED" in result.stderr
    remaining_kinds = {resource.kind for resource in deployment.read_resources()}
    assert {"google_firestore_database", "google_secret_manager_secret"} <= remaining_kinds
    assert "google_cloudfunctions2_function" not in remaining_kinds


def test_unprotected_data_is_destroyed(deployment: Deployment) -> None:
    deployment.apply(make_manifest(), **OPTIONS_WITHOUT_PROTECTION)
    result = deployment.destroy(make_manifest(), **OPTIONS_WITHOUT_PROTECTION)
    assert result.stderr == ""
    assert "Destroy complete!" in result.stdout


def test_without_all_users_the_gateway_has_no_public_invoker(small_deployment: Deployment) -> None:
    changes = small_deployment.plan_changes(make_manifest(), **ALL_OPTIONS, grant_all_users=False)
    invoker = 'google_cloud_run_v2_service_iam_member.invoker["gateway"]'
    assert changes == {invoker: ["delete"]}

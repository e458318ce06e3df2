"""Service accounts have the IAM roles that they need, and no others.

A grant is a tuple of a member, a role, and the database, service or bucket that it is for.
"""

from __future__ import annotations

import pytest

from tests.support.terraform_state import State, format_member

pytestmark = pytest.mark.slow

ROLES_BY_EFFECT = {
    "read": "roles/datastore.viewer",
    "write": "roles/datastore.user",
    "destroy": "roles/datastore.user",
}


def test_a_tools_effect_decides_its_accounts_role(state: State) -> None:
    expected = {
        (format_member(key), ROLES_BY_EFFECT[state.functions[key]["effect"]], "(default)")
        for key in state.list_keys("tool")
    }
    tools = {format_member(key) for key in state.list_keys("tool")}
    assert {grant for grant in state.get_database_roles() if grant[0] in tools} == expected


def test_jobs_write_only_to_the_first_database(state: State) -> None:
    jobs = {format_member(key) for key in state.list_keys("job")}
    grants = {grant for grant in state.get_database_roles() if grant[0] in jobs}
    assert grants == {(job, "roles/datastore.user", "(default)") for job in jobs}


def test_only_the_gateway_has_access_to_credentials(state: State) -> None:
    expected = {(format_member("gateway"), "roles/datastore.user", "access")}
    grants = state.get_database_roles()
    assert {grant for grant in grants if grant[2] == "access"} == expected
    assert {grant for grant in grants if grant[0] == format_member("gateway")} == expected


def test_every_database_role_has_a_condition(state: State) -> None:
    unconditional_roles = [
        resource.values
        for resource in state.resources["google_project_iam_member"]
        if resource.name == "database" and not resource.values["condition"]
    ]
    assert unconditional_roles == []


def test_only_the_gateway_is_public(state: State) -> None:
    invokers = state.get_grants("google_cloud_run_v2_service_iam_member", "name")
    grants = {grant for grant in invokers if grant[0] in {"allUsers", "allAuthenticatedUsers"}}
    assert grants == {("allUsers", "roles/run.invoker", "carrel-gateway")}


def test_only_the_gateway_invokes_tools(state: State) -> None:
    invokers = state.get_grants("google_cloud_run_v2_service_iam_member", "name")
    tools = {f"carrel-{key}" for key in state.list_keys("tool")}
    expected = {(format_member("gateway"), "roles/run.invoker", tool) for tool in tools}
    assert {grant for grant in invokers if grant[2] in tools} == expected


def test_only_the_schedules_invoke_jobs(state: State) -> None:
    invokers = state.get_grants("google_cloud_run_v2_service_iam_member", "name")
    jobs = {f"carrel-{key}" for key in state.list_keys("job")}
    expected = {(format_member("scheduler"), "roles/run.invoker", job) for job in jobs}
    assert {grant for grant in invokers if grant[2] in jobs} == expected


def test_each_function_has_its_own_account(state: State) -> None:
    accounts = {
        key: function["service_config"]["service_account_email"]
        for key, function in state.get_functions().items()
    }
    assert accounts == {
        key: format_member(key).removeprefix("serviceAccount:") for key in state.functions
    }


def test_project_roles_are_the_declared_ones(state: State) -> None:
    expected = {
        (format_member(key), role)
        for key, function in state.functions.items()
        for role in function["project_roles"]
    }
    grants = {
        (resource.values["member"], resource.values["role"])
        for resource in state.resources["google_project_iam_member"]
        if resource.name == "function"
    }
    assert grants == expected


def test_only_functions_that_declare_a_bucket_have_access(state: State) -> None:
    expected = {
        (format_member(key), role)
        for key, function in state.functions.items()
        for role in function["buckets"].values()
    }
    grants = {
        (resource.values["member"], resource.values["role"])
        for resource in state.resources["google_storage_bucket_iam_member"]
        if resource.name == "function"
    }
    assert grants == expected


def test_the_deployer_can_grant_only_roles_of_functions(state: State) -> None:
    [admin_grant] = [
        resource
        for resource in state.resources["google_project_iam_member"]
        if resource.values["role"] == "roles/resourcemanager.projectIamAdmin"
    ]
    granted_roles = {
        role
        for function in state.functions.values()
        for role in [*function["databases"].values(), *function["project_roles"]]
    }
    roles = ", ".join(f"'{role}'" for role in sorted(granted_roles))
    attribute = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    assert admin_grant.block["condition"]["expression"] == f"{attribute}.hasOnly([{roles}])"
    assert admin_grant.values["member"] == format_member("deployer")


def test_no_account_is_owner_or_editor(state: State) -> None:
    roles = {resource.values["role"] for resource in state.resources["google_project_iam_member"]}
    assert roles & {"roles/owner", "roles/editor", "roles/viewer", "roles/datastore.owner"} == set()

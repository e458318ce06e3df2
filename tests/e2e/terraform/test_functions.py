"""Functions are deployed as the manifest declares them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.terraform.conftest import ALL_OPTIONS, SETTINGS
from tests.support.fakes.terraform_provider_values import PROJECT_NUMBER
from tests.support.manifests import make_manifest
from tests.support.terraform_deployment import PROJECT, REGION, Deployment
from tests.support.terraform_state import State, format_member

pytestmark = pytest.mark.slow

USED_SECRETS = {"ACCESS_SECRETS", *ALL_OPTIONS["secrets"]}


def make_url(key: str) -> str:
    """Return the URL of a function."""
    return f"https://carrel-{key}-{PROJECT_NUMBER}.{REGION}.run.app"


def wrap_in_list(blocks: Any) -> list[dict[str, Any]]:
    """Return blocks as a list. A single block is not in a list in `Resource.block`."""
    return blocks if isinstance(blocks, list) else [blocks]


def test_each_function_is_deployed_as_declared(state: State) -> None:
    deployed_functions = state.get_functions()
    assert deployed_functions.keys() == state.functions.keys()
    for key, declared in state.functions.items():
        deployed = deployed_functions[key]
        assert deployed["name"] == f"carrel-{key}"

        build = deployed["build_config"]
        assert build["runtime"] == declared["runtime"]
        assert build["entry_point"] == declared["entry_point"]
        assert build["source"]["storage_source"]["bucket"] == f"{PROJECT}-carrel"
        assert build["source"]["storage_source"]["object"] == declared["bundle"]

        service = deployed["service_config"]
        assert service["available_memory"] == f"{declared['memory_mib']}Mi"
        assert service["available_cpu"] == str(declared["cpu"])
        assert service["max_instance_request_concurrency"] == declared["concurrency"]
        assert service["min_instance_count"] == declared["min_instances"]
        assert service["max_instance_count"] == declared["max_instances"]
        assert service["ingress_settings"] == declared["ingress"]


def test_each_function_records_its_bundle(state: State) -> None:
    """Google names only its own copy of a bundle."""
    for key, function in state.get_functions().items():
        expected = {"CARREL_BUNDLE": state.functions[key]["bundle"]}
        assert function["build_config"]["environment_variables"] == expected


def test_a_bundle_is_requested_in_its_uploaded_generation(deployment: Deployment) -> None:
    uploaded_manifest = make_manifest()
    uploaded_manifest["functions"]["search-kb"]["generation"] = 1_700_000_000_000_007
    deployment.apply(uploaded_manifest, **ALL_OPTIONS)
    state = State.group(uploaded_manifest["functions"], deployment.read_resources())
    source = state.get_functions()["search-kb"]["build_config"]["source"]["storage_source"]
    assert source["generation"] == 1_700_000_000_000_007


def test_concurrency_is_set_with_a_whole_cpu(state: State) -> None:
    for function in state.get_functions().values():
        config = function["service_config"]
        concurrency = config["max_instance_request_concurrency"]
        assert 1 <= concurrency <= 1000
        assert concurrency == 1 or float(config["available_cpu"]) >= 1


def test_function_names_fit_into_account_ids_and_urls(state: State) -> None:
    for key in state.functions:
        assert 6 <= len(f"carrel-{key}") <= 30  # the limits of a service account's id
        assert len(make_url(key).removeprefix("https://").partition(".")[0]) <= 63  # of a DNS label


def test_the_account_of_builds_can_only_build(state: State) -> None:
    email = format_member("build").removeprefix("serviceAccount:")
    repository = f"projects/{PROJECT}/locations/{REGION}/repositories/carrel"
    for function in state.get_functions().values():
        build = function["build_config"]
        assert build["service_account"] == f"projects/{PROJECT}/serviceAccounts/{email}"
        assert build["docker_repository"] == repository
    roles = {
        resource.values["role"]
        for resource in state.resources["google_project_iam_member"]
        if resource.values["member"] == format_member("build")
    }
    assert roles == {"roles/logging.logWriter", "roles/storage.objectViewer"}


def test_the_gateway_has_its_url_and_those_of_tools(state: State) -> None:
    environment = state.get_functions()["gateway"]["service_config"]["environment_variables"]
    tools = {state.functions[key]["name"]: make_url(key) for key in state.list_keys("tool")}
    assert environment["PUBLIC_URL"] == make_url("gateway")
    assert json.loads(environment["TOOL_URLS"]) == tools


def test_a_function_gets_its_settings_and_the_project(state: State) -> None:
    texts = f"gs://{PROJECT}-carrel-texts"
    passed_settings = {
        **SETTINGS,
        "INGEST_START_URL": "https://cloudscheduler.googleapis.com/v1/projects/"
        f"{PROJECT}/locations/{REGION}/jobs/carrel-ingest:run",
        "EMBEDDING_DIMENSION": "768",
        "INGEST_BUCKET": f"{texts}/texts",
        "BULK_BUCKET": f"{texts}/bulk",
    }
    gateway = state.get_functions()["gateway"]["service_config"]["environment_variables"]
    passed_settings["PUBLIC_URL"] = gateway["PUBLIC_URL"]
    for key in [*state.list_keys("tool"), *state.list_keys("job")]:
        names = state.functions[key]["settings"]
        expected = {name: value for name, value in passed_settings.items() if name in names}
        environment = state.get_functions()[key]["service_config"]["environment_variables"]
        assert environment == expected | {"GOOGLE_CLOUD_PROJECT": PROJECT}


def test_a_configured_time_limit_extends_the_timeout(state: State) -> None:
    expected = {key: function["timeout_seconds"] for key, function in state.functions.items()}
    expected["get-chunk"] = 96 + 5  # its TOOL_TIMEOUTS of 95.5 s, rounded up, and a margin
    expected["gateway"] = max(
        expected["gateway"], *(expected[key] for key in state.list_keys("tool"))
    )
    timeouts = {
        key: function["service_config"]["timeout_seconds"]
        for key, function in state.get_functions().items()
    }
    assert timeouts == expected


def test_a_function_gets_its_declared_secrets_in_use(state: State) -> None:
    expected = {
        (format_member(key), name)
        for key, function in state.functions.items()
        for name in function["secrets"]
        if name in USED_SECRETS
    }
    mounted_secrets = {
        (format_member(key), secret["key"])
        for key, function in state.get_functions().items()
        for secret in wrap_in_list(function["service_config"]["secret_environment_variables"])
    }
    readable_secrets = {
        (resource.values["member"], resource.values["secret_id"].rpartition("/")[2])
        for resource in state.resources["google_secret_manager_secret_iam_member"]
        if resource.values["role"] == "roles/secretmanager.secretAccessor"
    }
    assert mounted_secrets == expected
    assert readable_secrets == expected


def test_the_secrets_are_those_in_use_and_the_smoke_tests_key(state: State) -> None:
    created_secrets = {
        resource.values["secret_id"] for resource in state.resources["google_secret_manager_secret"]
    }
    assert created_secrets == USED_SECRETS | {"carrel-smoke-key"}


def test_instances_are_as_configured_or_declared(deployment: Deployment) -> None:
    variables = {"min_instances": {"gateway": 1}, "max_instances": {"gateway": 3, "search-kb": 20}}
    changes = deployment.plan_changes(make_manifest(), **ALL_OPTIONS, **variables)
    functions = "google_cloudfunctions2_function.carrel"
    expected_changes = {
        f'{functions}["gateway"]': ["update"],
        f'{functions}["search-kb"]': ["update"],
    }
    assert changes == expected_changes

    deployment.apply(make_manifest(), **ALL_OPTIONS, **variables)
    state = State.group(make_manifest()["functions"], deployment.read_resources())
    gateway = state.get_functions()["gateway"]["service_config"]
    assert gateway["min_instance_count"] == 1
    assert gateway["max_instance_count"] == 3
    search_kb = state.get_functions()["search-kb"]["service_config"]
    assert search_kb["min_instance_count"] == 0
    assert search_kb["max_instance_count"] == 20


def test_a_configured_public_url_is_the_gateways(deployment: Deployment) -> None:
    public_url = "https://carrel.example.com"
    deployment.apply(make_manifest(), **ALL_OPTIONS, public_url=public_url)
    state = State.group(make_manifest()["functions"], deployment.read_resources())
    config = state.get_functions()["gateway"]["service_config"]
    assert config["environment_variables"]["PUBLIC_URL"] == public_url
    assert deployment.read_outputs()["mcp_url"] == f"{public_url}/mcp"


def test_a_configured_bucket_replaces_the_created_one(deployment: Deployment) -> None:
    settings = SETTINGS | {"INGEST_BUCKET": "gs://my-library/notes"}
    deployment.apply(make_manifest(), **ALL_OPTIONS | {"settings": settings})
    state = State.group(make_manifest()["functions"], deployment.read_resources())
    grants = state.get_grants("google_storage_bucket_iam_member", "bucket")
    assert (format_member("ingest"), "roles/storage.objectViewer", "my-library") in grants
    assert deployment.read_outputs()["texts"] == "gs://my-library/notes"

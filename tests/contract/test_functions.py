"""Every function can be deployed, and its rights follow from its declaration."""

import ast
import re
import symtable
from typing import Any

import pytest

from infra.build.discovery import jobs, tools
from infra.build.functions import (
    JOB_GRACE_SECONDS,
    MAX_JOB_SECONDS,
    USER_ROLE,
    VIEWER_ROLE,
    Function,
    functions,
)
from shared.core.settings import ACCESS_DATABASE, KNOWLEDGE_DATABASE
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job
from shared.runtime.tool import Effect, Tool

FUNCTIONS = functions()
MAX_ENTRY_POINT_STATEMENTS = 4
"""A `main.py` has at most this many statements."""
MEMORY_SIZES = {512, 1024, 2048, 4096}
"""A function with one CPU may have these amounts of memory, in MiB."""

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.key)


def test_there_is_one_function_for_each_tool_job_and_gateway() -> None:
    names = ["gateway", *(tool.name for tool in tools()), *(job.name for job in jobs())]
    assert names == [function.name for function in FUNCTIONS]
    assert len({function.key for function in FUNCTIONS}) == len(FUNCTIONS)


@every_function
def test_an_entry_point_is_short_and_named_handle(function: Function) -> None:
    tree = ast.parse(function.main)
    assert len(tree.body) <= MAX_ENTRY_POINT_STATEMENTS
    assert "handle" in symtable.symtable(function.main, "main.py", "exec").get_identifiers()


@every_function
def test_a_service_account_has_a_valid_name(function: Function) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", f"carrel-{function.key}")


@every_function
def test_memory_and_timeout_are_within_limits(function: Function) -> None:
    assert function.memory in MEMORY_SIZES
    assert 1 <= function.concurrency <= 1000
    assert 1 <= function.timeout <= 3600


@pytest.mark.requirement("001-O5")
@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_a_tools_database_role_follows_from_its_effect(tool: Tool[Any, Any]) -> None:
    [function] = [function for function in FUNCTIONS if function.name == tool.name]
    role = VIEWER_ROLE if tool.effect is Effect.READ else USER_ROLE
    assert function.databases == {KNOWLEDGE_DATABASE: role}


@pytest.mark.requirement("001-O5")
def test_only_the_gateway_opens_the_database_of_credentials() -> None:
    [gateway] = [function for function in FUNCTIONS if ACCESS_DATABASE in function.databases]
    assert gateway.name == "gateway"
    assert gateway.databases == {ACCESS_DATABASE: USER_ROLE}


def test_each_secret_goes_only_to_functions_that_use_it() -> None:
    """Every function gets the headers of the span exporter; they are not compared here."""
    secrets = {function.name: {*function.secrets} for function in FUNCTIONS}
    for names in secrets.values():
        names.remove("OTEL_EXPORTER_OTLP_HEADERS")

    assert secrets["gateway"] == {"ACCESS_SECRETS", "BILLING_TOKEN", "GOOGLE_CLIENT_SECRET"}
    assert secrets["ingest"] == {"READWISE_TOKEN"}

    model_secrets = {
        Capability.EMBEDDING: "OPENAI_API_KEY",
        Capability.GENERATION: "GENERATION_API_KEY",
    }
    for function in FUNCTIONS:
        if function.name not in {"gateway", "ingest"}:
            capabilities = function.capabilities & model_secrets.keys()
            expected = {model_secrets[capability] for capability in capabilities}
            assert secrets[function.name] == expected


@every_function
def test_only_functions_with_models_have_access_to_them(function: Function) -> None:
    models = function.capabilities & {Capability.EMBEDDING, Capability.GENERATION}
    roles = function.build_manifest_entry("")["project_roles"]
    assert ("roles/aiplatform.user" in roles) == bool(models)


def test_only_tools_that_save_links_may_start_jobs() -> None:
    role = "roles/cloudscheduler.jobRunner"
    names = {
        function.name
        for function in FUNCTIONS
        if role in function.build_manifest_entry("")["project_roles"]
    }
    assert names == {"fetch_links", "save_link", "save_page"}


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.name)
def test_a_run_ends_before_its_function_times_out(job: Job) -> None:
    assert job.timeout + JOB_GRACE_SECONDS <= MAX_JOB_SECONDS

"""The doctor's checks of a deployment, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from infra.cloud.secret_values import ACCESS_SECRETS, SecretValues
from infra.cloud.services import (
    find_billing_account,
    find_disabled_services,
    format_link_billing_command,
    list_needed_services,
)
from infra.doctor.check import Check, CheckResult, failed, passed
from infra.doctor.firestore import DATABASES, EXPIRY, INDEXES
from infra.doctor.gateway import ACCESS, HEALTH, METADATA
from infra.doctor.jobs_and_embedding import EMBEDDING, EMBEDDING_SPACE, RUNS
from infra.doctor.live_deployment import LiveDeployment, get_schedule_name, get_short_name
from shared.core.installation import carrel_deploy, carrel_on_deployment

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEPLOY: Final = carrel_deploy()
_ALL_USERS: Final = "allUsers"


def _check_credentials(live: LiveDeployment) -> CheckResult:
    _ = live.api  # raises an error without credentials
    return passed("you are signed in")


def _check_project(live: LiveDeployment) -> CheckResult:
    return passed(f"{live.deployment.project}, number {live.number}")


def _check_billing(live: LiveDeployment) -> CheckResult:
    project = live.deployment.project
    if account := find_billing_account(live.api, project):
        return passed(f"billed to the account {account}")
    return failed("no open billing account is linked", format_link_billing_command(project))


def _check_services(live: LiveDeployment) -> CheckResult:
    services = list_needed_services(live.deployment)
    disabled = find_disabled_services(live.api, live.deployment.project, services)
    if not disabled:
        return passed(f"all {len(services)} are enabled")
    command = f"gcloud services enable {' '.join(disabled)} --project {live.deployment.project}"
    return failed(f"disabled: {', '.join(disabled)}", command)


def _check_secrets(live: LiveDeployment) -> CheckResult:
    values = SecretValues(live.api, live.deployment.project)
    names = [ACCESS_SECRETS, *live.deployment.secrets]
    if empty := [name for name in names if not values.has(name)]:
        return failed(f"without a value: {', '.join(empty)}", _DEPLOY)
    return passed(f"all {len(names)} have values")


def _check_functions(live: LiveDeployment) -> CheckResult:
    """Check that exactly the functions of the last release exist, each with its bundle."""
    expected = live.manifest["functions"]
    existing = {
        get_short_name(function).removeprefix("carrel-"): function for function in live.functions
    }
    inactive = (key for key in existing if existing[key].get("state") != "ACTIVE")
    outdated = (
        key
        for key in expected.keys() & existing.keys()
        if _get_bundle(existing[key]) != expected[key]["bundle"]
    )
    problems = [
        *_format_names("missing", expected.keys() - existing.keys()),
        *_format_names("not active", inactive),
        *_format_names("of another release", outdated),
        *_format_names("not in this release", existing.keys() - expected.keys()),
    ]
    if problems:
        return failed("; ".join(problems), _DEPLOY)
    return passed(f"all {len(expected)} are active and of the last release")


def _get_bundle(function: dict[str, Any]) -> str:
    """Return the name of the bundle from which a function was built.

    Terraform stores the name in a build variable, because `source` refers to Google's copy.
    """
    variables = function.get("buildConfig", {}).get("environmentVariables", {})
    return str(variables.get("CARREL_BUNDLE", ""))


def _format_names(label: str, names: Iterable[str]) -> list[str]:
    """Return a line with the label and the sorted names, or no line if there are no names."""
    sorted_names = sorted(names)
    return [f"{label}: {', '.join(sorted_names)}"] if sorted_names else []


def _check_invokers(live: LiveDeployment) -> CheckResult:
    """Check that Cloud Run passes requests of unknown clients to the gateway."""
    gateway = f"v2/{live.location}/services/carrel-gateway"
    if live.api.get("run", gateway).get("invokerIamDisabled"):
        return passed("anyone can reach the gateway, which checks credentials; Cloud Run does not")
    policy = live.api.get("run", f"{gateway}:getIamPolicy")
    invokers = {
        member
        for binding in policy.get("bindings", [])
        if binding["role"] == "roles/run.invoker"
        for member in binding["members"]
    }
    if _ALL_USERS in invokers:
        return passed("anyone can reach the gateway, which checks credentials")
    return failed(
        "clients cannot reach the gateway: a policy of your organization may forbid allUsers",
        f"{_DEPLOY}; if that does not help, see allUsers in docs/operations.md",
    )


def _check_schedules(live: LiveDeployment) -> CheckResult:
    """Check that each scheduled job has an enabled schedule, whose last attempt did not fail."""
    schedules = live.schedules
    expected = set(map(get_schedule_name, live.list_scheduled_jobs()))
    existing = expected & schedules.keys()
    disabled = (name for name in existing if schedules[name]["state"] != "ENABLED")
    problems = [
        *_format_names("missing", expected - existing),
        *_format_names("not enabled", disabled),
        *_format_names(
            "last run failed", filter(lambda name: _has_failed(schedules[name]), existing)
        ),
    ]
    if problems:
        return failed("; ".join(problems), carrel_on_deployment("jobs list"))
    return passed(f"all {len(expected)} are enabled, and the last run of each succeeded")


def _has_failed(schedule: dict[str, Any]) -> bool:
    """Return whether a schedule's last attempt failed.

    In a `google.rpc.Status`, the code 0 means OK.
    """
    return bool(schedule.get("status", {}).get("code"))


CHECKS: Final[tuple[Check[LiveDeployment], ...]] = (
    Check("credentials", _check_credentials, required=True),
    Check("project", _check_project, required=True),
    Check("billing", _check_billing),
    Check("Google's APIs", _check_services),
    DATABASES,
    INDEXES,
    EXPIRY,
    Check("secrets", _check_secrets),
    Check("functions", _check_functions),
    Check("invokers", _check_invokers),
    HEALTH,
    METADATA,
    ACCESS,
    Check("schedules", _check_schedules),
    RUNS,
    EMBEDDING_SPACE,
    EMBEDDING,
)
"""The checks, each after those on which it depends."""

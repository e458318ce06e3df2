"""The checks of a deployment, one for each part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from infra.cloud.secret_values import ACCESS_SECRETS, SecretValues
from infra.cloud.services import SERVICES, billing_account, disabled_services, link_billing_command
from infra.doctor.check import Check, CheckResult, failed, passed
from infra.doctor.firestore import DATABASES, EXPIRY, INDEXES
from infra.doctor.gateway import ACCESS, HEALTH, METADATA
from infra.doctor.jobs_and_embedding import EMBEDDING, EMBEDDING_SPACE, RUNS
from infra.doctor.live_deployment import LiveDeployment, schedule_name, short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEPLOY: Final = "carrel deploy"
_ALL_USERS: Final = "allUsers"


def _check_credentials(live: LiveDeployment) -> CheckResult:
    _ = live.api
    return passed("you are signed in")


def _check_project(live: LiveDeployment) -> CheckResult:
    return passed(f"{live.deployment.project}, number {live.number}")


def _check_billing(live: LiveDeployment) -> CheckResult:
    project = live.deployment.project
    if account := billing_account(live.api, project):
        return passed(f"billed to the account {account}")
    return failed("no open billing account is linked", link_billing_command(project))


def _check_services(live: LiveDeployment) -> CheckResult:
    disabled = disabled_services(live.api, live.deployment.project, SERVICES)
    if not disabled:
        return passed(f"all {len(SERVICES)} are enabled")
    command = f"gcloud services enable {' '.join(disabled)} --project {live.deployment.project}"
    return failed(f"disabled: {', '.join(disabled)}", command)


def _check_secrets(live: LiveDeployment) -> CheckResult:
    values = SecretValues(live.api, live.deployment.project)
    names = [ACCESS_SECRETS, *live.deployment.secrets]
    if empty := [name for name in names if not values.has(name)]:
        return failed(f"without a value: {', '.join(empty)}", _DEPLOY)
    return passed(f"all {len(names)} have values")


def _check_functions(live: LiveDeployment) -> CheckResult:
    released = live.manifest["functions"]
    running = {
        short_name(function).removeprefix("carrel-"): function for function in live.functions
    }
    inactive = (key for key in running if running[key].get("state") != "ACTIVE")
    outdated = (
        key
        for key in released.keys() & running.keys()
        if _bundle(running[key]) != released[key]["bundle"]
    )
    problems = [
        *_listing("missing", released.keys() - running.keys()),
        *_listing("not active", inactive),
        *_listing("of another release", outdated),
        *_listing("not in this release", running.keys() - released.keys()),
    ]
    if problems:
        return failed("; ".join(problems), _DEPLOY)
    return passed(f"all {len(released)} are active and of the last release")


def _bundle(function: dict[str, Any]) -> str:
    """Return the bundle from which a function was built.

    Terraform stores it in a variable, because `source` names a copy that Google made.
    """
    variables = function.get("buildConfig", {}).get("environmentVariables", {})
    return str(variables.get("CARREL_BUNDLE", ""))


def _listing(label: str, names: Iterable[str]) -> list[str]:
    """Format a label and the sorted names, or nothing if there are no names."""
    ordered = sorted(names)
    return [f"{label}: {', '.join(ordered)}"] if ordered else []


def _check_invokers(live: LiveDeployment) -> CheckResult:
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
    schedules = live.schedules
    expected = set(map(schedule_name, live.job_names()))
    existing = expected & schedules.keys()
    disabled = (name for name in existing if schedules[name]["state"] != "ENABLED")
    problems = [
        *_listing("missing", expected - existing),
        *_listing("not enabled", disabled),
        *_listing("last run failed", (name for name in existing if _has_failed(schedules[name]))),
    ]
    if problems:
        return failed("; ".join(problems), "carrel --cloud jobs list")
    return passed(f"all {len(expected)} are enabled, and the last run of each succeeded")


def _has_failed(schedule: dict[str, Any]) -> bool:
    """Return whether the last attempt failed. Code 0 of a `google.rpc.Status` is OK."""
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

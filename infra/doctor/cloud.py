"""What a deployment needs: one check for each thing that is made, and for who answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from infra.cloud.secret_values import ACCESS_SECRETS, SecretValues
from infra.cloud.services import SERVICES, disabled, link_billing, paying_account
from infra.doctor.check import Check, Finding, ok, wrong
from infra.doctor.deployed import Deployed, name_of, schedule_of
from infra.doctor.firestore import DATABASES, EXPIRY, INDEXES
from infra.doctor.gateway import ANSWERS, CLOSED, METADATA
from infra.doctor.working import EMBEDDING, RUNS, STAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEPLOY: Final = "carrel deploy"
_EVERYBODY: Final = "allUsers"


def _credentials(deployed: Deployed) -> Finding:
    _ = deployed.api
    return ok("you are signed in")


def _project(deployed: Deployed) -> Finding:
    return ok(f"{deployed.deployment.project}, number {deployed.number}")


def _billing(deployed: Deployed) -> Finding:
    project = deployed.deployment.project
    if account := paying_account(deployed.api, project):
        return ok(f"the account {account} pays")
    return wrong("no open account pays", link_billing(project))


def _services(deployed: Deployed) -> Finding:
    off = disabled(deployed.api, deployed.deployment.project, SERVICES)
    if not off:
        return ok(f"{len(SERVICES)} are on")
    command = f"gcloud services enable {' '.join(off)} --project {deployed.deployment.project}"
    return wrong(f"off: {', '.join(off)}", command)


def _secrets(deployed: Deployed) -> Finding:
    values = SecretValues(deployed.api, deployed.deployment.project)
    wanted = [ACCESS_SECRETS, *deployed.deployment.secrets]
    if empty := [name for name in wanted if not values.has(name)]:
        return wrong(f"without a value: {', '.join(empty)}", _DEPLOY)
    return ok(f"{len(wanted)} have values")


def _functions(deployed: Deployed) -> Finding:
    wanted = deployed.manifest["functions"]
    found = {name_of(each).removeprefix("carrel-"): each for each in deployed.functions}
    ill = [
        *_told("missing", wanted.keys() - found.keys()),
        *_told("not active", (key for key in found if found[key].get("state") != "ACTIVE")),
        *_told("of another release", _others(wanted, found)),
        *_told("not of this release", found.keys() - wanted.keys()),
    ]
    return wrong("; ".join(ill), _DEPLOY) if ill else ok(f"{len(wanted)} are active, as released")


def _others(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Functions that were not built from the bundle that the manifest names."""
    return [
        key for key in wanted.keys() & found.keys() if _bundle(found[key]) != wanted[key]["bundle"]
    ]


def _bundle(function: dict[str, Any]) -> str:
    """What Terraform says that it was built from: its `source` names a copy that Google made."""
    variables = function.get("buildConfig", {}).get("environmentVariables", {})
    return str(variables.get("CARREL_BUNDLE", ""))


def _told(what: str, names: Iterable[str]) -> list[str]:
    listed = sorted(names)
    return [f"{what}: {', '.join(listed)}"] if listed else []


def _invokers(deployed: Deployed) -> Finding:
    gateway = f"v2/{deployed.place}/services/carrel-gateway"
    if deployed.api.get("run", gateway).get("invokerIamDisabled"):
        return ok("the gateway asks everybody who they are; Cloud Run does not")
    policy = deployed.api.get("run", f"{gateway}:getIamPolicy")
    may = {
        member
        for binding in policy.get("bindings", [])
        if binding["role"] == "roles/run.invoker"
        for member in binding["members"]
    }
    if _EVERYBODY in may:
        return ok("everybody reaches the gateway, which asks who they are")
    return wrong(
        "not everybody reaches the gateway: a policy of your organization may forbid it",
        f"{_DEPLOY}; if that does not help: docs/operations.md, where allUsers is forbidden",
    )


def _schedules(deployed: Deployed) -> Finding:
    jobs = deployed.schedules
    wanted = set(map(schedule_of, deployed.job_names()))
    ill = [
        *_told("missing", wanted - jobs.keys()),
        *_told("not enabled", (n for n in wanted & jobs.keys() if jobs[n]["state"] != "ENABLED")),
        *_told("failed last", (n for n in wanted & jobs.keys() if _failed(jobs[n]))),
    ]
    if not ill:
        return ok(f"{len(wanted)} are enabled, and none failed last")
    return wrong("; ".join(ill), "carrel --cloud jobs list")


def _failed(job: dict[str, Any]) -> bool:
    """Whether the last attempt failed: `status` is that of a `google.rpc.Status`, 0 being OK."""
    return bool(job.get("status", {}).get("code"))


CHECKS: Final[tuple[Check[Deployed], ...]] = (
    Check("credentials", _credentials, first=True),
    Check("project", _project, first=True),
    Check("billing", _billing),
    Check("Google's APIs", _services),
    DATABASES,
    INDEXES,
    EXPIRY,
    Check("secrets", _secrets),
    Check("functions", _functions),
    Check("who may call", _invokers),
    ANSWERS,
    METADATA,
    CLOSED,
    Check("schedules", _schedules),
    RUNS,
    STAMP,
    EMBEDDING,
)

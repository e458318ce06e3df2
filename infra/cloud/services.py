"""The project itself: that it is there, that it is paid for, and which of Google's APIs are on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.failures import NotDone, Refused
from infra.cloud.google_api import PATIENCE, PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infra.cloud.cloud import Cloud
    from infra.cloud.google_api import GoogleApi

SERVICES: Final = (
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    "billingbudgets.googleapis.com",
    "cloudbilling.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudscheduler.googleapis.com",
    "firestore.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "run.googleapis.com",
    "secretmanager.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
)
"""All that is used. A service that was just switched on answers, and its own accounts have their
rights, some minutes later: all are switched on first, before bundles are staged. One request takes
20 (https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchEnable)."""
_USAGE: Final = "serviceusage"
_DISABLED: Final = "SERVICE_DISABLED"
_AT_ONCE: Final = 30
"""Services that one `batchGet` may name
(https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchGet)."""


def project_number(api: GoogleApi, project: str) -> str:
    """The number of a project: that it has one proves that it is there, and open to us.

    Raises:
        NotDone: It is not.
    """
    try:
        found = api.get(_USAGE, f"v1/projects/{project}/services/{_USAGE}.googleapis.com")
    except Refused as refusal:
        if refusal.reason == _DISABLED:
            how = f"gcloud services enable {_USAGE}.googleapis.com --project {project}"
            raise NotDone(f"The Service Usage API is off. Next: {how}") from refusal
        raise NotDone(
            f"The project {project} does not exist, or you may not use it: {refusal.message}\n"
            f"Next: gcloud projects describe {project}, or gcloud projects create {project}"
        ) from refusal
    return str(found["parent"]).removeprefix("projects/")


def paying_account(api: GoogleApi, project: str) -> str | None:
    """The id of the open billing account that pays for a project, if one does.

    https://cloud.google.com/billing/docs/reference/rest/v1/ProjectBillingInfo
    """
    found = api.get("cloudbilling", f"v1/projects/{project}/billingInfo")
    paid = found.get("billingEnabled")
    return str(found["billingAccountName"]).removeprefix("billingAccounts/") if paid else None


def link_billing(project: str) -> str:
    """The command that has a billing account pay."""
    return f"gcloud billing projects link {project} --billing-account ACCOUNT_ID"


def disabled(api: GoogleApi, project: str, services: Iterable[str]) -> list[str]:
    """Which of these services are off."""
    wanted = sorted(services)
    off: list[str] = []
    for start in range(0, len(wanted), _AT_ONCE):
        names = [f"projects/{project}/services/{each}" for each in wanted[start : start + _AT_ONCE]]
        found = api.get(_USAGE, f"v1/projects/{project}/services:batchGet", {"names": names})
        states = {each["name"].rsplit("/", 1)[1]: each["state"] for each in found["services"]}
        off += [each for each in wanted[start : start + _AT_ONCE] if states[each] != "ENABLED"]
    return off


def enable_services(cloud: Cloud) -> None:
    """Switch on what is off, and wait for what the next steps need: that can take a minute."""
    project = cloud.deployment.project
    off = disabled(cloud.api, project, SERVICES)
    if off:
        cloud.say(f"  switching on {', '.join(off)}")
        cloud.api.await_done(_USAGE, _enable(cloud.api, project, off))
    _await_service(cloud, "cloudbilling", f"v1/projects/{project}/billingInfo")
    _await_service(cloud, "firestore", f"v1/projects/{project}/databases")
    _await_service(cloud, "secretmanager", f"v1/projects/{project}/secrets")


def _enable(api: GoogleApi, project: str, off: list[str]) -> dict[str, Any]:
    """Have them switched on: a batch is of two or more, as Google's older references say.

    https://googleapis.dev/ruby/google-api-client/v0.28.2/Google/Apis/ServiceusageV1/BatchEnableServicesRequest.html
    """
    parent = f"v1/projects/{project}/services"
    if len(off) == 1:
        return api.post(_USAGE, f"{parent}/{off[0]}:enable", {})
    return api.post(_USAGE, f"{parent}:batchEnable", {"serviceIds": off})


def check_billing(cloud: Cloud) -> str:
    """Make sure that somebody pays.

    Returns:
        The id of the billing account.

    Raises:
        NotDone: Nobody does.
    """
    project = cloud.deployment.project
    account = paying_account(cloud.api, project)
    if account is None:
        raise NotDone(f"No billing account pays for {project}. Next: {link_billing(project)}")
    return account


def with_budget(cloud: Cloud) -> Cloud:
    """A new deployment with the account that its budget is of, if it is to have one."""
    if cloud.deployment.monthly_budget is None:
        return cloud
    enable_services(cloud)  # which account it is can only be asked then
    account = {"billing_account": check_billing(cloud)}
    return replace(cloud, deployment=cloud.deployment.model_copy(update=account))


def _await_service(cloud: Cloud, service: str, path: str) -> None:
    for _ in range(PATIENCE):
        try:
            cloud.api.get(service, path)
        except Refused as refusal:
            if refusal.reason != _DISABLED:
                raise
            cloud.api.pause(PAUSE)
        else:
            return
    raise NotDone(f"{service}.googleapis.com is not on yet. Try again in some minutes.")

"""Looks up a project's number and billing account, and enables the Google APIs that it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.errors import CommandFailed, GoogleApiError
from infra.cloud.google_api import MAX_POLLS, POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infra.cloud.cloud import Cloud
    from infra.cloud.deployment import Deployment
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
"""The APIs that Carrel uses. After an API is enabled, minutes pass until it answers and its service
accounts have their roles. So all APIs are enabled first, before bundles are staged. One request
enables up to 20 APIs
(https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchEnable)."""
TELEMETRY_SERVICES: Final = ("cloudtrace.googleapis.com", "telemetry.googleapis.com")
"""The APIs that store spans, which a deployment uses only with TELEMETRY=gcp."""
_USAGE: Final = "serviceusage"
"""The API that enables other APIs, which Google also calls services."""
_DISABLED: Final = "SERVICE_DISABLED"
"""Google's code for the error of an API that is not enabled, or not yet."""
_MAX_SERVICES_PER_REQUEST: Final = 30
"""One `batchGet` may name at most this many services
(https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchGet)."""


def look_up_project_number(api: GoogleApi, project: str) -> str:
    """Look up a project's number. Success proves that the project exists and is accessible.

    Raises:
        CommandFailed: The project does not exist or is not accessible.
    """
    try:
        service = api.get(_USAGE, f"v1/projects/{project}/services/{_USAGE}.googleapis.com")
    except GoogleApiError as error:
        if error.reason == _DISABLED:
            command = f"gcloud services enable {_USAGE}.googleapis.com --project {project}"
            raise CommandFailed(f"The Service Usage API is disabled. Next: {command}") from error
        raise CommandFailed(
            f"The project {project} does not exist, or you have no access to it: {error.message}\n"
            f"Next: gcloud projects describe {project}, or gcloud projects create {project}"
        ) from error
    return str(service["parent"]).removeprefix("projects/")


def find_billing_account(api: GoogleApi, project: str) -> str | None:
    """Return the id of a project's open billing account, or None if no open account is linked.

    https://cloud.google.com/billing/docs/reference/rest/v1/ProjectBillingInfo
    """
    billing = api.get("cloudbilling", f"v1/projects/{project}/billingInfo")
    if not billing.get("billingEnabled"):
        return None
    return str(billing["billingAccountName"]).removeprefix("billingAccounts/")


def format_link_billing_command(project: str) -> str:
    """Format the command that links a billing account to a project."""
    return f"gcloud billing projects link {project} --billing-account ACCOUNT_ID"


def list_needed_services(deployment: Deployment) -> tuple[str, ...]:
    """List the APIs that a deployment uses."""
    exports_to_google = deployment.settings.get("TELEMETRY") == "gcp"
    return (*SERVICES, *(TELEMETRY_SERVICES if exports_to_google else ()))


def find_disabled_services(api: GoogleApi, project: str, services: Iterable[str]) -> list[str]:
    """Return the disabled services among the given ones."""
    sorted_services = sorted(services)
    disabled: list[str] = []
    for start in range(0, len(sorted_services), _MAX_SERVICES_PER_REQUEST):
        batch = sorted_services[start : start + _MAX_SERVICES_PER_REQUEST]
        names = [f"projects/{project}/services/{service}" for service in batch]
        answer = api.get(_USAGE, f"v1/projects/{project}/services:batchGet", {"names": names})
        states = {
            service["name"].rsplit("/", 1)[1]: service["state"] for service in answer["services"]
        }
        disabled += [service for service in batch if states[service] != "ENABLED"]
    return disabled


def enable_services(cloud: Cloud) -> None:
    """Enable all services, and wait up to some minutes for those that the next steps need."""
    project = cloud.deployment.project
    disabled = find_disabled_services(cloud.api, project, list_needed_services(cloud.deployment))
    if disabled:
        cloud.echo(f"  enabling {', '.join(disabled)}")
        cloud.api.await_operation(_USAGE, _enable(cloud.api, project, disabled))
    _wait_for_service(cloud, "cloudbilling", f"v1/projects/{project}/billingInfo")
    _wait_for_service(cloud, "firestore", f"v1/projects/{project}/databases")
    _wait_for_service(cloud, "secretmanager", f"v1/projects/{project}/secrets")


def _enable(api: GoogleApi, project: str, services: list[str]) -> dict[str, Any]:
    """Start to enable services, and return the operation.

    According to Google's older reference, a batch must name at least two services:
    https://googleapis.dev/ruby/google-api-client/v0.28.2/Google/Apis/ServiceusageV1/BatchEnableServicesRequest.html
    """
    parent = f"v1/projects/{project}/services"
    if len(services) == 1:
        return api.post(_USAGE, f"{parent}/{services[0]}:enable", {})
    return api.post(_USAGE, f"{parent}:batchEnable", {"serviceIds": services})


def require_billing(cloud: Cloud) -> str:
    """Require a billing account and return its id.

    Raises:
        CommandFailed: The project has no open billing account.
    """
    project = cloud.deployment.project
    account = find_billing_account(cloud.api, project)
    if account is None:
        command = format_link_billing_command(project)
        raise CommandFailed(f"The project {project} has no open billing account. Next: {command}")
    return account


def add_budget(cloud: Cloud) -> Cloud:
    """Add the billing account to a new deployment that has a monthly budget."""
    if cloud.deployment.monthly_budget is None:
        return cloud
    enable_services(cloud)  # looking up the billing account needs the Cloud Billing API
    account = {"billing_account": require_billing(cloud)}
    return replace(cloud, deployment=cloud.deployment.model_copy(update=account))


def _wait_for_service(cloud: Cloud, service: str, path: str) -> None:
    """Wait until an API answers a request for a resource.

    Raises:
        CommandFailed: The API does not answer in time.
    """
    for _ in range(MAX_POLLS):
        try:
            cloud.api.get(service, path)
        except GoogleApiError as error:
            if error.reason != _DISABLED:
                raise
            cloud.sleep(POLL_SECONDS)
        else:
            return
    raise CommandFailed(f"{service}.googleapis.com is not enabled yet. Try again in some minutes.")

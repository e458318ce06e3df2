"""Checks the gateway from outside, without credentials."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx2

from functions.gateway.auth.public_url import METADATA_PATH, RESOURCE_PATH
from infra.cloud.errors import CommandFailed
from infra.doctor.check import Check, CheckResult, failed, passed
from shared.core.installation import carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.doctor.live_deployment import LiveDeployment

_TIMEOUT_SECONDS: Final = 60.0
"""A request may take this long, because it may have to wait until an instance has started."""
_MAX_QUOTED: Final = 300
"""A message quotes at most this many characters of a response."""
_DEPLOY: Final = carrel_deploy()
_LIST_TOOLS: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_LIST_TOOLS_HEADERS: Final = {"accept": "application/json, text/event-stream"}


def _check_health(live: LiveDeployment) -> CheckResult:
    response = _send("GET", f"{live.url}/health")
    if response.status_code != HTTPStatus.OK:
        reason = response.text[:_MAX_QUOTED]
        message = f"{live.url} is not healthy ({response.status_code}): {reason}"
        return failed(message, _format_logs_command(live))
    return passed(f"{live.url} and all its parts are healthy")


def _check_metadata(live: LiveDeployment) -> CheckResult:
    """Check that the OAuth metadata names the URL by which clients reach the gateway."""
    url = live.url + METADATA_PATH + RESOURCE_PATH
    response = _send("GET", url)
    if response.status_code != HTTPStatus.OK:
        message = f"{url} responds with status {response.status_code} instead of 200"
        return failed(message, _format_logs_command(live))
    try:
        published = response.json()["resource"]
    except (ValueError, TypeError, KeyError):
        reason = response.text[:_MAX_QUOTED]
        message = f"{url} responds without the metadata of a gateway: {reason}"
        return failed(message, _format_logs_command(live))
    expected = live.url + RESOURCE_PATH
    if published != expected:
        message = f"the gateway publishes {published} instead of {expected}"
        return failed(message, f"set public_url in deployment.tfvars.json, then {_DEPLOY}")
    return passed(f"the gateway publishes {expected}")


def _check_access(live: LiveDeployment) -> CheckResult:
    """Check that a call without a credential is rejected, unless the deployment is public."""
    url = live.url + RESOURCE_PATH
    response = _send("POST", url, json=_LIST_TOOLS, headers=_LIST_TOOLS_HEADERS)
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        return passed("a call without a credential is rejected")
    if live.settings.public_access and response.status_code == HTTPStatus.OK:
        return passed("anyone may read, as PUBLIC_ACCESS is set")
    expected = "200 or 401" if live.settings.public_access else "401"
    message = (
        f"a call without a credential gets status {response.status_code} instead of {expected}"
    )
    return failed(message, _format_logs_command(live))


def _send(
    method: str, url: str, json: object = None, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    try:
        return httpx2.request(method, url, json=json, headers=headers, timeout=_TIMEOUT_SECONDS)
    except httpx2.TransportError as error:
        raise CommandFailed(f"{url} does not respond. Next: {_DEPLOY}") from error


def _format_logs_command(live: LiveDeployment) -> str:
    options = f"--project {live.deployment.project} --region {live.deployment.region}"
    return f"gcloud functions logs read carrel-gateway --gen2 {options}"


HEALTH: Final = Check("gateway", _check_health)
METADATA: Final = Check("public URL", _check_metadata)
ACCESS: Final = Check("access control", _check_access)

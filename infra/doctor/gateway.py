"""Checks the gateway from outside, without credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx2

from functions.gateway.auth.public_url import METADATA_PATH, RESOURCE_PATH
from infra.cloud.errors import CommandFailed
from infra.doctor.check import Check, CheckResult, failed, passed

if TYPE_CHECKING:
    from infra.doctor.live_deployment import LiveDeployment

_TIMEOUT_SECONDS: Final = 60.0
"""A request times out after this time, which includes the start of an instance."""
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_DEPLOY: Final = "carrel deploy"
_LIST_TOOLS: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_MCP_HEADERS: Final = {"accept": "application/json, text/event-stream"}


def _check_health(live: LiveDeployment) -> CheckResult:
    response = _send("GET", f"{live.url}/health")
    if response.status_code != _OK:
        message = f"{live.url} is not healthy ({response.status_code}): {response.text[:300]}"
        return failed(message, _format_logs_command(live))
    return passed(f"{live.url} and all its parts are healthy")


def _check_metadata(live: LiveDeployment) -> CheckResult:
    response = _send("GET", live.url + METADATA_PATH + RESOURCE_PATH)
    expected = live.url + RESOURCE_PATH
    published = response.json().get("resource") if response.status_code == _OK else None
    if published != expected:
        message = f"the gateway publishes {published} instead of {expected}"
        return failed(message, f"set public_url in deployment.tfvars.json, then {_DEPLOY}")
    return passed(f"the gateway publishes {expected}")


def _check_access(live: LiveDeployment) -> CheckResult:
    response = _send("POST", live.url + RESOURCE_PATH, json=_LIST_TOOLS)
    if response.status_code == _UNAUTHORIZED:
        return passed("a call without a credential is rejected")
    if live.settings.public_access:
        return passed("anyone may read, as PUBLIC_ACCESS is set")
    message = f"a call without a credential gets status {response.status_code} instead of 401"
    return failed(message, _format_logs_command(live))


def _send(method: str, url: str, json: object = None) -> httpx2.Response:
    try:
        return httpx2.request(
            method, url, json=json, headers=_MCP_HEADERS, timeout=_TIMEOUT_SECONDS
        )
    except httpx2.TransportError as error:
        raise CommandFailed(f"{url} does not answer. Next: {_DEPLOY}") from error


def _format_logs_command(live: LiveDeployment) -> str:
    options = f"--project {live.deployment.project} --region {live.deployment.region}"
    return f"gcloud functions logs read carrel-gateway --gen2 {options}"


HEALTH: Final = Check("gateway", _check_health)
METADATA: Final = Check("public URL", _check_metadata)
ACCESS: Final = Check("access control", _check_access)

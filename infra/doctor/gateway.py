"""The gateway, as anybody on the internet finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx2

from functions.gateway.auth.public_url import METADATA_PATH, RESOURCE_PATH
from infra.cloud.failures import NotDone
from infra.doctor.check import Check, Finding, ok, wrong

if TYPE_CHECKING:
    from infra.doctor.deployed import Deployed

_SECONDS: Final = 60.0
"""An instance may have to start first."""
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_DEPLOY: Final = "carrel deploy"
_LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_MCP: Final = {"accept": "application/json, text/event-stream"}


def _answers(deployed: Deployed) -> Finding:
    response = _asked("GET", f"{deployed.url}/health")
    if response.status_code != _OK:
        said = f"{deployed.url} is ill ({response.status_code}): {response.text[:300]}"
        return wrong(said, _logs(deployed))
    return ok(f"{deployed.url} and all its parts are well")


def _metadata(deployed: Deployed) -> Finding:
    response = _asked("GET", deployed.url + METADATA_PATH + RESOURCE_PATH)
    expected = deployed.url + RESOURCE_PATH
    found = response.json().get("resource") if response.status_code == _OK else None
    if found != expected:
        said = f"it says that it is {found}, and not {expected}"
        return wrong(said, f"set public_url in deployment.tfvars.json, then {_DEPLOY}")
    return ok(f"it calls itself {expected}")


def _closed(deployed: Deployed) -> Finding:
    response = _asked("POST", deployed.url + RESOURCE_PATH, json=_LIST)
    if response.status_code == _UNAUTHORIZED:
        return ok("nobody gets in without a credential")
    if deployed.settings.public_access:
        return ok("open to all for reading, as PUBLIC_ACCESS says")
    said = f"without a credential it answers {response.status_code}, and not 401"
    return wrong(said, _logs(deployed))


def _asked(method: str, url: str, json: object = None) -> httpx2.Response:
    try:
        return httpx2.request(method, url, json=json, headers=_MCP, timeout=_SECONDS)
    except httpx2.TransportError as error:
        raise NotDone(f"{url} does not answer. Next: {_DEPLOY}") from error


def _logs(deployed: Deployed) -> str:
    project, region = deployed.deployment.project, deployed.deployment.region
    place = f"--project {project} --region {region}"
    return f"gcloud functions logs read carrel-gateway --gen2 {place}"


ANSWERS: Final = Check("gateway", _answers)
METADATA: Final = Check("its public address", _metadata)
CLOSED: Final = Check("its door", _closed)

"""A fake of the Google Cloud REST APIs that a deployment uses, except Cloud Storage.

The path of a request begins with the name of the API: `/secretmanager/v1/projects/...`. Tests read
and change the state of the APIs, which is in the attributes of `Project`.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.fakes.http_server import LoopbackHandler, LoopbackServer

PROJECT_NUMBER: Final = "123456789012"
"""The number of every project."""
Json = dict[str, Any]
"""A JSON object, or the parameters of a URL."""


class ErrorResponse(Exception):
    """An error that the fake sends as its response."""

    def __init__(self, status: int, message: str = "No.", reason: str = "") -> None:
        """Respond with this status, this message, and Google's code for the reason."""
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass
class Project:
    """The state of a project.

    Attributes:
        has_billing: Whether an open billing account is linked.
        services: The enabled APIs.
        secrets: The values of each secret, the newest last; a secret may have none.
        databases: The resources of the Firestore Admin API by name.
        indexes: The composite indexes of each database.
        expiring: The fields of each database by which documents expire.
        functions: The resources of the Cloud Functions API by name.
        invokers: The accounts that may invoke each Cloud Run service.
        open_services: Cloud Run services without IAM checks, which everybody can invoke.
        jobs: The resources of the Cloud Scheduler API by name.
        remaining_rejections: The number of further requests that are rejected as if their API were
            disabled, as happens for a while after it is enabled.
    """

    has_billing: bool = True
    services: set[str] = field(default_factory=lambda: {"serviceusage.googleapis.com"})
    secrets: dict[str, list[str]] = field(default_factory=dict)
    databases: dict[str, Json] = field(default_factory=dict)
    indexes: dict[str, list[Json]] = field(default_factory=dict)
    expiring: dict[str, list[Json]] = field(default_factory=dict)
    functions: dict[str, Json] = field(default_factory=dict)
    invokers: dict[str, list[str]] = field(default_factory=dict)
    open_services: set[str] = field(default_factory=set)
    jobs: dict[str, Json] = field(default_factory=dict)
    remaining_rejections: int = 0


class FakeGoogleCloud(LoopbackServer):
    """Fake Google Cloud APIs on a free port while the `with` block runs.

    Attributes:
        projects: The existing projects by id.
        requests: The number of requests for each service.
        addresses: The path and query of each request so far.
    """

    def __init__(self, **projects: Project) -> None:
        """Open the port."""
        super().__init__(_Handler)
        self.projects = {name.replace("_", "-"): project for name, project in projects.items()}
        self.requests: Counter[str] = Counter()
        self.addresses: list[str] = []

    @property
    def address(self) -> str:
        """The template of the APIs' URLs, in which `{service}` is the name of the API."""
        return f"http://127.0.0.1:{self.server_port}/{{service}}"

    def answer(self, method: str, service: str, path: str, query: Json, body: Json) -> Json:
        """Answer a request."""
        self.requests[service] += 1
        for pattern, route_method, handle in _ROUTES.get(service, []):
            if route_method == method and (match := re.fullmatch(pattern, path)):
                project = self._require_project(match["project"], service)
                return handle(project, match.groupdict(), query, body)
        raise ErrorResponse(404, f"There is no {method} {service}/{path}")

    def _require_project(self, name: str, service: str) -> Project:
        if name not in self.projects:
            raise ErrorResponse(403, f"Permission denied on project {name}.", "CONSUMER_INVALID")
        project = self.projects[name]
        is_disabled = f"{service}.googleapis.com" not in project.services
        if is_disabled or (service != "serviceusage" and project.remaining_rejections):
            project.remaining_rejections = max(0, project.remaining_rejections - 1)
            raise ErrorResponse(403, f"{service} has not been used before.", "SERVICE_DISABLED")
        return project


_Handle = Callable[[Project, Json, Json, Json], Json]
"""A function that answers a request: its project, the names in its path, its query and its body."""


def _get_service(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    return _describe_service(project, path["service"])


def _get_services(project: Project, _path: Json, query: Json, _body: Json) -> Json:
    names = [name.rpartition("/")[2] for name in query["names"]]
    return {"services": [_describe_service(project, name) for name in names]}


def _describe_service(project: Project, name: str) -> Json:
    state = "ENABLED" if name in project.services else "DISABLED"
    parent = f"projects/{PROJECT_NUMBER}"
    return {"name": f"{parent}/services/{name}", "parent": parent, "state": state}


def _enable_services(project: Project, path: Json, _query: Json, body: Json) -> Json:
    names = [path["service"]] if "service" in path else body["serviceIds"]
    if "service" not in path and not 2 <= len(names) <= 20:
        raise ErrorResponse(400, "A batch has 2 to 20 services.")
    project.services |= set(names)
    return {"name": "operations/acat.p2-1", "done": True, "response": {}}


def _get_billing(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    account = "billingAccounts/012345-567890-ABCDEF" if project.has_billing else ""
    name = f"projects/{path['project']}/billingInfo"
    return {"name": name, "billingAccountName": account, "billingEnabled": project.has_billing}


def _list_secrets(project: Project, _path: Json, _query: Json, _body: Json) -> Json:
    return {
        "secrets": [
            {"name": f"projects/{PROJECT_NUMBER}/secrets/{name}"} for name in project.secrets
        ]
    }


def _list_versions(project: Project, path: Json, query: Json, _body: Json) -> Json:
    assert query["filter"] == ["state:ENABLED"]
    values = _get_values(project, path)
    prefix = f"projects/{PROJECT_NUMBER}/secrets/{path['secret']}/versions"
    versions = [{"name": f"{prefix}/{n}", "state": "ENABLED"} for n in range(len(values), 0, -1)]
    return {"versions": versions, "totalSize": len(versions)} if versions else {}


def _access_version(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    values = _get_values(project, path)
    if not values:
        raise ErrorResponse(404, "Secret Version latest not found.")
    return {"payload": {"data": base64.b64encode(values[-1].encode()).decode()}}


def _add_version(project: Project, path: Json, _query: Json, body: Json) -> Json:
    _get_values(project, path).append(base64.b64decode(body["payload"]["data"]).decode())
    return {"state": "ENABLED"}


def _get_values(project: Project, path: Json) -> list[str]:
    if path["secret"] not in project.secrets:
        raise ErrorResponse(404, f"Secret [{path['secret']}] not found.")
    return project.secrets[path["secret"]]


def _make_paged_list(field_name: str, answer_name: str) -> _Handle:
    """Return a function that lists resources in pages of ten.

    Args:
        field_name: The field of `Project` with the resources.
        answer_name: The field of the answer for the resources.
    """

    def list_page(project: Project, _path: Json, query: Json, _body: Json) -> Json:
        items = list(getattr(project, field_name).values())
        start = int(query.get("pageToken", ["0"])[0])
        end = start + 10
        answer: Json = {answer_name: items[start:end]} if items else {}
        return answer | ({"nextPageToken": str(end)} if end < len(items) else {})

    return list_page


def _get_database(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    if path["database"] not in project.databases:
        raise ErrorResponse(404, "The database does not exist.")
    return project.databases[path["database"]]


def _list_databases(project: Project, _path: Json, _query: Json, _body: Json) -> Json:
    return {"databases": list(project.databases.values())}


def _list_fields(project: Project, path: Json, query: Json, _body: Json) -> Json:
    assert query["filter"] == ["ttlConfig:*"]
    return {"fields": project.expiring.get(path["database"], [])}


def _list_indexes(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    return {"indexes": project.indexes.get(path["database"], [])}


def _get_run_service(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    if path["run"] in project.open_services:
        return {"name": path["run"], "invokerIamDisabled": True}
    return {"name": path["run"]}


def _get_policy(project: Project, path: Json, _query: Json, _body: Json) -> Json:
    members = project.invokers.get(path["run"], [])
    bindings = [{"role": "roles/run.invoker", "members": members}] if members else []
    return {"version": 1, "etag": "ACAB", "bindings": bindings}


_PROJECT: Final = "v1/projects/(?P<project>[^/]+)"
_LOCATION: Final = "projects/(?P<project>[^/]+)/locations/[^/]+"
_DATABASE: Final = f"{_PROJECT}/databases/(?P<database>[^/]+)"
_SECRET: Final = f"{_PROJECT}/secrets/(?P<secret>[^/:]+)"
_ROUTES: Final[dict[str, list[tuple[str, str, _Handle]]]] = {
    "serviceusage": [
        (f"{_PROJECT}/services/(?P<service>[^/:]+)", "GET", _get_service),
        (f"{_PROJECT}/services:batchGet", "GET", _get_services),
        (f"{_PROJECT}/services:batchEnable", "POST", _enable_services),
        (f"{_PROJECT}/services/(?P<service>[^/:]+):enable", "POST", _enable_services),
    ],
    "cloudbilling": [(f"{_PROJECT}/billingInfo", "GET", _get_billing)],
    "secretmanager": [
        (f"{_PROJECT}/secrets", "GET", _list_secrets),
        (f"{_SECRET}/versions", "GET", _list_versions),
        (f"{_SECRET}/versions/latest:access", "GET", _access_version),
        (f"{_SECRET}:addVersion", "POST", _add_version),
    ],
    "firestore": [
        (f"{_PROJECT}/databases", "GET", _list_databases),
        (_DATABASE, "GET", _get_database),
        (f"{_DATABASE}/collectionGroups/-/fields", "GET", _list_fields),
        (f"{_DATABASE}/collectionGroups/-/indexes", "GET", _list_indexes),
    ],
    "cloudfunctions": [
        (f"v2/{_LOCATION}/functions", "GET", _make_paged_list("functions", "functions"))
    ],
    "run": [
        (f"v2/{_LOCATION}/services/(?P<run>[^/:]+):getIamPolicy", "GET", _get_policy),
        (f"v2/{_LOCATION}/services/(?P<run>[^/:]+)", "GET", _get_run_service),
    ],
    "cloudscheduler": [(f"v1/{_LOCATION}/jobs", "GET", _make_paged_list("jobs", "jobs"))],
}
"""The pattern, the HTTP method and the answering function of each path, by the name of the API."""


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeGoogleCloud

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        body = json.loads(self.read_body() or b"{}")
        self.server.addresses.append(self.path)
        parts = urlsplit(self.path)
        _, service, path = parts.path.split("/", 2)
        try:
            answer = self.server.answer(method, service, path, parse_qs(parts.query), body)
            self._send(200, answer)
        except ErrorResponse as refusal:
            detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.reason}
            error = {"code": refusal.status, "message": str(refusal)}
            details = {"details": [detail]} if refusal.reason else {}
            self._send(refusal.status, {"error": error | details})

    def _send(self, status: int, answer: Json) -> None:
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        self.send_answer(status, json.dumps(answer).encode(), headers)

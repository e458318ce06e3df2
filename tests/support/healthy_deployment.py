"""A deployment on fake services in which `carrel doctor` finds nothing wrong.

Each test breaks one part of it, and checks what the doctor then reports.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client

from infra.cloud.bucket import LAST_GOOD, Bucket
from infra.cloud.deployment import Deployment
from infra.cloud.google_api import GoogleApi
from infra.cloud.services import SERVICES
from infra.doctor.cloud import CHECKS
from infra.doctor.live_deployment import LiveDeployment
from infra.local.local_database import INDEX_FILES
from shared.core.settings import Settings
from tests.support.fakes.google_cloud import FakeGoogleCloud, Project

if TYPE_CHECKING:
    from infra.doctor.check import Check
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.gateway import FakeGateway

DIMENSION: Final = 384
"""The dimension of the local embedding model, which needs no cloud."""
MANIFEST: Final = {
    "functions": {
        "gateway": {"name": "gateway", "bundle": "bundles/gateway-1.zip", "schedule": ""},
        "ingest-materials": {
            "name": "ingest_materials",
            "bundle": "bundles/ingest-materials-1.zip",
            "schedule": "*/5 * * * *",
        },
    }
}
"""The released functions: the gateway, and one scheduled job."""


@dataclass(frozen=True)
class FakeDeployment:
    """A deployment and the fake services that it runs on.

    Attributes:
        live: The deployment as the doctor sees it.
        google: The fake Google APIs.
        storage: The fake Cloud Storage.
        gateway: The fake gateway.
    """

    live: LiveDeployment
    google: FakeGoogleCloud
    storage: FakeCloudStorage
    gateway: FakeGateway

    @property
    def project(self) -> Project:
        """The project of the deployment."""
        return self.google.projects[self.live.deployment.project]

    def copy_with(self, **deployment: Any) -> FakeDeployment:
        """Return a copy in which fields of `Deployment` are changed."""
        changed_deployment = self.live.deployment.model_copy(update=deployment)
        return replace(self, live=replace(self.live, deployment=changed_deployment))

    def schedule(self, name: str) -> None:
        """Add a job that runs hourly to the last good release and to Cloud Scheduler."""
        functions = self.live.manifest["functions"]
        functions[name] = {"name": name, "bundle": f"bundles/{name}-1.zip", "schedule": "0 * * * *"}
        self.project.jobs[name] = _make_job(f"carrel-{name}")

    def delete_release(self) -> None:
        """Delete the record of the last good release."""
        self.storage.delete(self.live.deployment.bucket, LAST_GOOD)


def make_healthy_deployment(
    project: str, google: FakeGoogleCloud, storage: FakeCloudStorage, gateway: FakeGateway
) -> FakeDeployment:
    """Make a deployment of `MANIFEST` in which the doctor finds nothing wrong.

    Args:
        project: The id of a new project.
        google: The fake Google APIs, to which the project is added.
        storage: The fake Cloud Storage, to which the deployment's bucket is added.
        gateway: The deployment's gateway.
    """
    deployment = Deployment(
        project=project, embedding_dimension=DIMENSION, secrets=("READWISE_TOKEN",)
    )
    storage.buckets[deployment.bucket] = {}
    released = {"manifest": MANIFEST, "deployment": json.loads(deployment.to_json())}
    storage.put(deployment.bucket, LAST_GOOD, json.dumps(released))
    google.projects[project] = _make_project(project)
    session = AuthorizedSession(AnonymousCredentials())
    live = LiveDeployment(
        deployment=deployment,
        settings=Settings(google_cloud_project=project),
        sign_in=lambda: GoogleApi(session, google.address, sleep=lambda _: None),
        open_bucket=lambda: Bucket(Client(project=project), deployment.bucket),
        indexes=INDEX_FILES,
        address=gateway.url,
    )
    return FakeDeployment(live, google, storage, gateway)


def find_check(name: str) -> Check[LiveDeployment]:
    """Return the doctor's check of deployments with this name."""
    [check] = [check for check in CHECKS if check.name == name]
    return check


def _make_project(name: str) -> Project:
    functions = MANIFEST["functions"]
    return Project(
        services=set(SERVICES),
        secrets={"ACCESS_SECRETS": ["one"], "READWISE_TOKEN": ["two"]},
        databases={
            database: {"name": database, "type": "FIRESTORE_NATIVE"} for database in INDEX_FILES
        },
        indexes={database: _make_indexes(name, database) for database in INDEX_FILES},
        expiring={database: _make_expiring_fields(name, database) for database in INDEX_FILES},
        functions={key: _make_function(key, entry["bundle"]) for key, entry in functions.items()},
        invokers={"carrel-gateway": ["allUsers"]},
        jobs={"ingest-materials": _make_job("carrel-ingest-materials")},
    )


def _make_indexes(project: str, database: str) -> list[dict[str, Any]]:
    """Return a database's indexes as the API lists them."""
    groups = f"projects/{project}/databases/{database}/collectionGroups"
    return [
        {
            "name": f"{groups}/{index['collectionGroup']}/indexes/CICA{number}",
            "queryScope": index["queryScope"],
            "fields": _to_listed_fields(index["fields"]),
            "state": "READY",
        }
        for number, index in enumerate(json.loads(INDEX_FILES[database].read_text())["indexes"])
    ]


def _to_listed_fields(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of an index as the API lists them.

    The API adds `__name__` after the other fields, sorted like the last one, and puts the vector
    last, with this deployment's dimension.
    """
    vector_fields = [field for field in fields if "vectorConfig" in field]
    other_fields = [field for field in fields if "vectorConfig" not in field]
    if not other_fields or other_fields[-1]["fieldPath"] != "__name__":
        orders = [field["order"] for field in other_fields if "order" in field]
        last_order = orders[-1] if orders else "ASCENDING"
        other_fields.append({"fieldPath": "__name__", "order": last_order})
    vector_config = {"dimension": DIMENSION, "flat": {}}
    return other_fields + [field | {"vectorConfig": vector_config} for field in vector_fields]


def _make_expiring_fields(project: str, database: str) -> list[dict[str, Any]]:
    groups = f"projects/{project}/databases/{database}/collectionGroups"
    return [
        {
            "name": f"{groups}/{entry['collectionGroup']}/fields/{entry['fieldPath']}",
            "ttlConfig": {"state": "ACTIVE"},
        }
        for entry in json.loads(INDEX_FILES[database].read_text())["fieldOverrides"]
        if entry.get("ttl")
    ]


def _make_function(key: str, bundle: str) -> dict[str, Any]:
    copy = {
        "bucket": "gcf-v2-sources-123456789012-europe-west1",
        "object": f"carrel-{key}/function-source.zip",
        "generation": "1",
    }
    return {
        "name": f"projects/p/locations/europe-west1/functions/carrel-{key}",
        "buildConfig": {
            "runtime": "python311",
            "entryPoint": "handle",
            "source": {"storageSource": copy},
            "environmentVariables": {"CARREL_BUNDLE": bundle},
        },
        "state": "ACTIVE",
        "environment": "GEN_2",
    }


def _make_job(name: str) -> dict[str, Any]:
    return {
        "name": f"projects/p/locations/europe-west1/jobs/{name}",
        "state": "ENABLED",
        "status": {},
        "lastAttemptTime": "2025-11-22T20:15:00.1Z",
        "scheduleTime": "2025-11-22T20:20:00Z",
    }

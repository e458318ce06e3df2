"""Checks the databases, their indexes and their expiry rules with the Firestore Admin API.

https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes
https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from infra.doctor.check import Check, CheckResult, failed, passed
from infra.local.embedded_firestore.definitions import Definitions
from shared.core.installation import carrel_deploy

if TYPE_CHECKING:
    from pathlib import Path

    from infra.doctor.live_deployment import LiveDeployment

_DEPLOY: Final = carrel_deploy()
_WAIT_OR_DEPLOY: Final = f"wait some minutes; if it persists, {_DEPLOY}"
_NATIVE: Final = "FIRESTORE_NATIVE"


def _check_databases(live: LiveDeployment) -> CheckResult:
    """Check that both databases exist in native mode."""
    for name in live.indexes:
        database = live.api.find("firestore", f"v1/{_get_path(live, name)}")
        if database is None:
            return failed(f"{name} is missing", _DEPLOY)
        if database.get("type") != _NATIVE:
            message = f"{name} is not in native mode, which Carrel needs"
            return failed(message, f"{_DEPLOY}, in another project")
    return passed(" and ".join(live.indexes))


def _check_indexes(live: LiveDeployment) -> CheckResult:
    """Check that all declared composite and vector indexes are ready."""
    missing: list[str] = []
    count = 0
    for name, path in live.indexes.items():
        definitions = Definitions.read(path, live.deployment.embedding_dimension)
        count += len(definitions.indexes)
        ready = _fetch_ready_indexes(live, name)
        missing += [
            _describe(index.to_json(reverse=descends))
            for index, descends in definitions.indexes - ready.indexes
        ]
    if missing:
        return failed(f"not ready: {'; '.join(sorted(missing))}", _WAIT_OR_DEPLOY)
    return passed(f"all {count} are ready")


def _describe(entry: dict[str, Any]) -> str:
    """Describe an index in one line, by its collection and fields."""
    fields = [
        f"{field['fieldPath']} {field.get('order') or field.get('arrayConfig') or 'VECTOR'}"
        for field in entry["fields"]
    ]
    return f"{entry['collectionGroup']} ({entry['queryScope']}): {', '.join(fields)}"


def _fetch_ready_indexes(live: LiveDeployment, database: str) -> Definitions:
    """Fetch the composite and vector indexes that queries of a database can use now."""
    path = f"v1/{_get_path(live, database)}/collectionGroups/-/indexes"
    indexes = live.api.get_all("firestore", path, "indexes")
    entries = [_to_entry(index) for index in indexes if index.get("state") == "READY"]
    return Definitions.from_json({"indexes": entries})


def _to_entry(index: dict[str, Any]) -> dict[str, Any]:
    """Convert an index from the API's format to the format of the file.

    In the API's format, only the name of the index contains the collection:
    `projects/P/databases/D/collectionGroups/COLLECTION/indexes/ID`.
    """
    collection = str(index["name"]).split("/")[-3]
    return {
        "collectionGroup": collection,
        "queryScope": index["queryScope"],
        "fields": index["fields"],
    }


def _check_expiry(live: LiveDeployment) -> CheckResult:
    """Check that Firestore deletes expired documents, by each field that the files declare."""
    missing: list[str] = []
    count = 0
    for name, path in live.indexes.items():
        declared = _read_declared_expiry_fields(path)
        count += len(declared)
        absent = declared - _fetch_active_expiry_fields(live, name)
        missing += [f"{field} in {name}" for field in sorted(absent)]
    if missing:
        return failed(f"not active: {', '.join(missing)}", _WAIT_OR_DEPLOY)
    return passed(f"documents expire by {count} fields")


def _read_declared_expiry_fields(path: Path) -> set[str]:
    """Return the fields with a time of expiry, each as `collection.field`."""
    entries = json.loads(path.read_text("utf-8"))["fieldOverrides"]
    return {
        f"{entry['collectionGroup']}.{entry['fieldPath']}" for entry in entries if entry.get("ttl")
    }


def _fetch_active_expiry_fields(live: LiveDeployment, database: str) -> set[str]:
    """Fetch the fields by which documents expire, each as `collection.field`."""
    path = f"v1/{_get_path(live, database)}/collectionGroups/-/fields"
    fields = live.api.get_all("firestore", path, "fields", {"filter": "ttlConfig:*"})
    active = [field for field in fields if field.get("ttlConfig", {}).get("state") == "ACTIVE"]
    names = [str(field["name"]).split("/") for field in active]
    return {f"{parts[-3]}.{parts[-1]}" for parts in names}


def _get_path(live: LiveDeployment, database: str) -> str:
    return f"projects/{live.deployment.project}/databases/{database}"


DATABASES: Final = Check("databases", _check_databases)
INDEXES: Final = Check("indexes", _check_indexes)
EXPIRY: Final = Check("expiry", _check_expiry)

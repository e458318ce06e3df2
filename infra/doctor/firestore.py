"""Databases, their indexes and what expires in them, as the Firestore Admin API tells of them.

https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes
https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from infra.build.index_file import Index, IndexFile, Mode
from infra.doctor.check import Check, Finding, ok, wrong

if TYPE_CHECKING:
    from pathlib import Path

    from infra.doctor.deployed import Deployed

_DEPLOY: Final = "carrel deploy"
_NATIVE: Final = "FIRESTORE_NATIVE"


def _databases(deployed: Deployed) -> Finding:
    for name in deployed.indexes:
        found = deployed.api.find("firestore", f"v1/{_parent(deployed, name)}")
        if found is None:
            return wrong(f"{name} is missing", _DEPLOY)
        if found.get("type") != _NATIVE:
            said = f"{name} is of another type, which Carrel cannot use"
            return wrong(said, "carrel deploy, in another project")
    return ok(" and ".join(deployed.indexes))


def _indexes(deployed: Deployed) -> Finding:
    lacking: list[str] = []
    count = 0
    for name, path in deployed.indexes.items():
        declared = {
            _resized(index, deployed.deployment.embedding_dimension)
            for index in IndexFile.parse(path.read_text("utf-8")).composites
        }
        count += len(declared)
        lacking += [str(each) for each in sorted(declared - _ready(deployed, name))]
    if lacking:
        return wrong(f"not ready: {'; '.join(lacking)}", "wait some minutes, else carrel deploy")
    return ok(f"{count} are ready")


def _ready(deployed: Deployed, database: str) -> set[Index]:
    path = f"v1/{_parent(deployed, database)}/collectionGroups/-/indexes"
    found = deployed.api.all("firestore", path, "indexes")
    entries = [_entry(each) for each in found if each.get("state") == "READY"]
    return set(IndexFile.parse(json.dumps({"indexes": entries})).composites)


def _entry(index: dict[str, Any]) -> dict[str, Any]:
    """An index as the file has it; the API names its collection in its own name."""
    collection = str(index["name"]).split("/")[-3]
    return {
        "collectionGroup": collection,
        "queryScope": index["queryScope"],
        "fields": index["fields"],
    }


def _expiry(deployed: Deployed) -> Finding:
    lacking: list[str] = []
    count = 0
    for name, path in deployed.indexes.items():
        declared = _declared_expiring(path)
        count += len(declared)
        lacking += [f"{each} in {name}" for each in sorted(declared - _expiring(deployed, name))]
    if lacking:
        then = "wait some minutes, else carrel deploy"
        return wrong(f"nothing expires yet by {', '.join(lacking)}", then)
    return ok(f"{count} fields say when documents go")


def _declared_expiring(path: Path) -> set[str]:
    entries = json.loads(path.read_text("utf-8"))["fieldOverrides"]
    return {f"{each['collectionGroup']}.{each['fieldPath']}" for each in entries if each.get("ttl")}


def _expiring(deployed: Deployed, database: str) -> set[str]:
    path = f"v1/{_parent(deployed, database)}/collectionGroups/-/fields"
    found = deployed.api.all("firestore", path, "fields", {"filter": "ttlConfig:*"})
    active = [each for each in found if each.get("ttlConfig", {}).get("state") == "ACTIVE"]
    names = [str(each["name"]).split("/") for each in active]
    return {f"{parts[-3]}.{parts[-1]}" for parts in names}


def _resized(index: Index, dimension: int) -> Index:
    """An index whose vectors have the length that the deployment says."""
    fields = [
        field._replace(dimension=dimension) if field.mode is Mode.VECTOR else field
        for field in index.fields
    ]
    return index._replace(fields=tuple(fields))


def _parent(deployed: Deployed, database: str) -> str:
    return f"projects/{deployed.deployment.project}/databases/{database}"


DATABASES: Final = Check("databases", _databases)
INDEXES: Final = Check("indexes", _indexes)
EXPIRY: Final = Check("what expires", _expiry)

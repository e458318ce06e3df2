"""The database `access` has TTL policies, and no indexes on fields that no query uses.

Firestore indexes each name in a map unless told otherwise, which costs a write and storage.
"""

import ast
import json
from typing import Any

from infra.build.discovery import ROOT
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind

INDEX_FILE_TEXT = (ROOT / "infra" / "build" / "access.indexes.json").read_text("utf-8")
OVERRIDES: list[dict[str, Any]] = json.loads(INDEX_FILE_TEXT)["fieldOverrides"]
REPOSITORY_MODULES = sorted((ROOT / "shared" / "accounts" / "repositories").glob("*.py"))
EXPIRING_COLLECTIONS = {"calls", "limits", "oauth_clients", "oauth_grants"}
"""Access keys are not here, as they are listed after they expire; accounts never expire."""


def find_collections(source: str) -> set[str]:
    """Return the top-level collections that a module names."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AnnAssign(
                target=ast.Name("COLLECTION" | "CLIENTS"), value=ast.Constant(str(name))
            ):
                names.add(name)
    return names


def make_index(collection: str, path: str) -> Index:
    field = tuple(path.split(".")), Kind.ASCENDING
    return Index(collection, group=False, fields=(field,))


def test_collections_that_expire_have_a_ttl_policy() -> None:
    sources = [path.read_text("utf-8") for path in REPOSITORY_MODULES]
    collections = set[str]().union(*map(find_collections, sources))
    assert collections == EXPIRING_COLLECTIONS | {"accounts", "keys"}
    assert {entry["collectionGroup"] for entry in OVERRIDES} <= collections
    policies = [entry for entry in OVERRIDES if "ttl" in entry]
    fields = {(entry["collectionGroup"], entry["fieldPath"]) for entry in policies}
    assert fields == {(name, "expires_at") for name in EXPIRING_COLLECTIONS}


def test_fields_without_queries_are_not_indexed() -> None:
    definitions = Definitions.from_json(json.loads(INDEX_FILE_TEXT))
    unqueried_fields = [
        ("accounts", "held"),
        ("accounts", "held.amount"),
        ("accounts", "ended_grants"),
        ("calls", "arguments.query"),
        ("limits", "expires_at"),
    ]
    for collection, path in unqueried_fields:
        assert not definitions.has(make_index(collection, path))
    assert definitions.has(make_index("keys", "user_id"))

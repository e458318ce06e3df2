"""The indexes of the access database: what expires goes by itself, what is only kept has none.

Each name in an indexed map is an index entry of its own, to be written and stored for nothing.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from infra.build.discovery import ROOT
from infra.build.index_file import IndexFile

TEXT = (ROOT / "infra" / "build" / "access.indexes.json").read_text("utf-8")
OVERRIDES: list[dict[str, Any]] = json.loads(TEXT)["fieldOverrides"]
CODE = sorted((ROOT / "shared" / "accounts" / "repositories").glob("*.py"))
EXPIRING = {"calls", "limits", "oauth_clients", "oauth_grants"}
"""Keys are listed after their end, and accounts have none."""


def collections_in(source: str) -> set[str]:
    """The collections at the root of the database that a module names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AnnAssign(target=ast.Name("COLLECTION"), value=ast.Constant(str(name))):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(ast.Attribute(attr="_database"), "document" | "collection"),
                args=[ast.Constant(str(name)), *_],
            ):
                found.add(name)
    return found


def test_the_file_names_collections_that_the_code_uses() -> None:
    used = set[str]().union(*(collections_in(path.read_text("utf-8")) for path in CODE))
    assert EXPIRING | {"accounts", "keys"} == used
    assert {entry["collectionGroup"] for entry in OVERRIDES} <= used


def test_what_expires_is_deleted_by_the_database() -> None:
    lasting = {(each["collectionGroup"], each["fieldPath"]) for each in OVERRIDES if "ttl" in each}
    assert {(name, "expires_at") for name in EXPIRING} == lasting


def test_what_is_never_asked_for_is_not_indexed() -> None:
    file = IndexFile.parse(TEXT)
    for collection, path in [
        ("accounts", "held"),
        ("accounts", "held.some-call.amount"),
        ("accounts", "ended_grants"),
        ("calls", "arguments.query"),
        ("limits", "expires_at"),
    ]:
        assert frozenset() == file.single_field_indexes(collection, path)
    assert file.single_field_indexes("keys", "user_id")

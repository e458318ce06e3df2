"""What is declared to be deleted later is deleted, by one mechanism each; other documents stay.

The database `access` has no indexes on fields that no query uses. Firestore indexes each name in a
map unless told otherwise, which costs a write and storage.
"""

import json
from datetime import timedelta
from typing import Final

from functions.jobs.purge.job import make_sweeps
from infra.build.discovery import ROOT, retentions
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind

KNOWLEDGE, ACCESS = (
    Definitions.from_json(json.loads((ROOT / "infra" / "build" / name).read_text("utf-8")))
    for name in ("firestore.indexes.json", "access.indexes.json")
)
INVALID: Final = {
    ("limits", "expires_at"),
    ("oauth_clients", "expires_at"),
    ("oauth_grants", "expires_at"),
}
"""Firestore deletes these once they are no longer valid. Access keys are listed even then."""


def list_policies(definitions: Definitions) -> set[tuple[str, str]]:
    """Return the collections and fields by which Firestore deletes documents."""
    return {(collection, ".".join(path)) for collection, path in definitions.ttl}


def make_index(collection: str, path: str) -> Index:
    field = tuple(path.split(".")), Kind.ASCENDING
    return Index(collection, group=False, fields=(field,))


def test_each_retention_has_a_policy_or_a_sweep() -> None:
    swept = {sweep.name for sweep in make_sweeps(materials_days=1)}
    by_policy = {(name, "purge_at") for name in retentions().keys() - swept}
    assert swept <= retentions().keys()
    assert list_policies(KNOWLEDGE) | list_policies(ACCESS) == by_policy | INVALID
    assert list_policies(ACCESS) == {("calls", "purge_at")} | INVALID


def test_documents_are_kept_for_their_declared_periods() -> None:
    assert {name: retention.duration for name, retention in retentions().items()} == {
        "calls": timedelta(days=90),
        "chunks": timedelta(days=7),
        "forgotten": timedelta(days=30),
        "forgotten_sources": timedelta(days=30),
        "links": timedelta(days=30),
        "note_revisions": timedelta(days=30),
        "rag_tasks": timedelta(days=90, hours=1),
        "replays": timedelta(days=30),
        "runs": timedelta(days=30),
        "tasks": timedelta(days=30),
        "traces": timedelta(days=30),
    }


def test_nothing_hangs_on_what_firestore_deletes() -> None:
    swept = {sweep.name for sweep in make_sweeps(materials_days=1)}
    for name, retention in retentions().items():
        assert name in swept or not (retention.dependents or retention.contents)


def test_fields_without_queries_are_not_indexed() -> None:
    unqueried_fields = [
        ("accounts", "held"),
        ("accounts", "held.amount"),
        ("accounts", "ended_grants"),
        ("calls", "arguments.query"),
        ("limits", "expires_at"),
    ]
    for collection, path in unqueried_fields:
        assert not ACCESS.has(make_index(collection, path))
    assert ACCESS.has(make_index("keys", "user_id"))

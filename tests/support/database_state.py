"""Reads the state of a knowledge base, and compares two states.

A state is what a knowledge base contains, without anything that differs from run to run: times, and
the records of runs and leases. Numbers are rounded, since their last bits depend on the machine.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from google.cloud.firestore_v1.vector import Vector

from shared.runtime.context import Context
from tests.support.stored_documents import read_documents

Fields = dict[str, Any]
State = dict[str, dict[str, Fields]]
"""The fields of each document, by collection and document id."""

EXCLUDED_COLLECTIONS: Final = {"runs", "leases"}
"""Collections that are not part of a state, because they are about runs."""
TIME_FIELDS: Final = {
    "created_at",
    "updated_at",
    "generated_at",
    "extracted_at",
    "made_at",
    "ended_at",
    "seen_until",
    "updated_after",
    "date",
    "milliseconds",
    "run_id",
}
"""Fields that are not part of a state: times, durations and ids of runs."""
MAPS_KEYED_BY_DATA: Final = {"postings", "indexed", "ranks"}
"""Maps whose keys are data, such as words. None of these keys is a time field."""
UNORDERED_FIELDS: Final = {"central"}
"""Lists that a state sorts, because their order may depend on the last bits of similarities."""
DECIMALS: Final = 6
"""The number of decimals to which numbers are rounded."""
MAX_FIELD_LENGTH: Final = 40
"""The maximum number of characters of a field as JSON; a digest replaces a longer field."""
DIGESTED_COLLECTIONS: Final = {"lexicon", "facets"}
"""Large collections, which one digest replaces."""
HISTORY_FIELDS: Final = {
    "chunks": {"extracted"},
    "extractions": {"group"},
    "clusters": {"name", "description", "keywords", "central"},
    "lexicon": {"held"},
    "facets": {"held"},
}
"""Fields, by collection, that depend on the order of changes to a knowledge base."""
MAX_LISTED_DIFFERENCES: Final = 30
"""The maximum number of differences that are listed."""
_MISSING_VALUE: Final = object()


async def read_state(ctx: Context) -> State:
    """Return the state of a knowledge base."""
    collections = [
        collection.id async for collection in ctx.database.connection.client.collections()
    ]
    state = {
        name: {key: _simplify(data, "") for key, data in (await read_documents(ctx, name)).items()}
        for name in sorted(collections)
        if name not in EXCLUDED_COLLECTIONS
    }
    return _summarize_map(state)


def _summarize_map(state: State) -> State:
    """Return a state in which a summary replaces the map: its chunk ids, and its versions' number.

    The positions of points depend on the history of a knowledge base, and on last bits.
    """
    pages = state.get("map", {})
    if not pages:
        return state
    summary = {
        "versions": len({name.partition("-")[0] for name in pages}),
        "chunk_ids": sorted(chunk_id for page in pages.values() for chunk_id in page["points"]),
    }
    meta = {name: data for name, data in state["meta"].items() if name != "map"}
    return {**state, "meta": meta, "map": {"summary": summary}}


def shorten_state(state: State) -> State:
    """Return the state with digests in place of long fields and of large collections."""
    return {
        collection: {"all": {"number": len(documents), "contents": _compute_digest(documents)}}
        if collection in DIGESTED_COLLECTIONS
        else {name: _shorten(data) for name, data in documents.items()}
        for collection, documents in state.items()
    }


def format_state(state: State) -> str:
    """Return a state as JSON, with one document on a line."""
    blocks = [
        f"{json.dumps(collection)}: {{\n{_format_lines(collection_documents)}\n}}"
        for collection, collection_documents in sorted(state.items())
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def remove_history(state: State) -> State:
    """Return a state without the fields that depend on the order of its changes.

    - A cluster keeps its id, name, keywords and central passages while most of its passages stay.
      A digest of its members replaces the id.
    - A group of extractions keeps the id of its first one when that is deleted.
    - `held` of postings may count entries that have been deleted.
    - Empty fields and counts of 0 are left out.
    """
    members: dict[str, list[str]] = {}
    for chunk_id, chunk in state["chunks"].items():
        for cluster_id in chunk.get("cluster_id") or ():
            members.setdefault(cluster_id, []).append(chunk_id)
    text = json.dumps(state)
    for cluster_id, chunk_ids in members.items():
        text = text.replace(cluster_id, f"cluster of {_compute_digest(sorted(chunk_ids))}")
    parsed: State = json.loads(text)
    return {
        collection: {
            name: _drop_history(collection, data) for name, data in collection_documents.items()
        }
        for collection, collection_documents in parsed.items()
        if collection != "extraction_groups"
    }


def describe_differences(expected: State, actual: State) -> str:
    """List the differences of a state from the expected one; empty if there are none."""
    lines = list(_find_differences(expected, actual))
    omitted = len(lines) - MAX_LISTED_DIFFERENCES
    if omitted > 0:
        lines[MAX_LISTED_DIFFERENCES:] = [f"... and {omitted} more"]
    return "\n".join(lines)


def _find_differences(expected: State, actual: State) -> Iterator[str]:
    for collection in sorted(expected.keys() | actual.keys()):
        expected_documents = expected.get(collection, {})
        actual_documents = actual.get(collection, {})
        for name in sorted(expected_documents.keys() | actual_documents.keys()):
            path = f"{collection}/{name}"
            if name not in actual_documents:
                yield f"{path} is missing"
            elif name not in expected_documents:
                yield f"{path} should not exist"
            else:
                yield from _find_field_differences(
                    path, expected_documents[name], actual_documents[name]
                )


def _find_field_differences(path: str, expected: Fields, actual: Fields) -> Iterator[str]:
    for field in sorted(expected.keys() | actual.keys()):
        expected_value = expected.get(field, _MISSING_VALUE)
        actual_value = actual.get(field, _MISSING_VALUE)
        if expected_value != actual_value:
            difference = f"{_describe(actual_value)} and should be {_describe(expected_value)}"
            yield f"{path}: {field} is {difference}"


def _drop_history(collection: str, data: Fields) -> Fields:
    """Return the fields of a document that do not depend on its history."""
    counts = data.get("counts")
    if collection == "topics" and counts:
        data = data | {"counts": {kind: count for kind, count in counts.items() if count}}
    history_fields = HISTORY_FIELDS.get(collection, set())
    return {
        name: value
        for name, value in data.items()
        if name not in history_fields and value not in (None, [])
    }


def _describe(value: Any) -> str:
    if value is _MISSING_VALUE:
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    max_length = 4 * MAX_FIELD_LENGTH
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def _simplify(value: Any, name: str) -> Any:
    """Return a field as JSON, without times."""
    match value:
        case dict():
            return _simplify_map(value, name)
        case Vector() | list():
            items = [_simplify(item, "") for item in value]
            return sorted(items) if name in UNORDERED_FIELDS else items
        case float():
            return round(value, DECIMALS)
        case datetime():
            return value.isoformat()
        case bytes():
            return value.hex()
    return value


def _simplify_map(value: Fields, name: str) -> Any:
    """Return a map without times; of the map `pending`, only the names of the steps."""
    if name == "pending":
        return sorted(value)
    omitted = set() if name in MAPS_KEYED_BY_DATA else TIME_FIELDS
    return {key: _simplify(item, key) for key, item in sorted(value.items()) if key not in omitted}


def _shorten(data: Fields) -> Fields:
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in data.items()}
    return {
        name: data[name] if len(text) <= MAX_FIELD_LENGTH else f"#{_compute_digest(data[name])}"
        for name, text in texts.items()
    }


def _compute_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def _format_lines(documents: dict[str, Fields]) -> str:
    rows = (
        f"  {json.dumps(name)}: {json.dumps(data, sort_keys=True, ensure_ascii=False)}"
        for name, data in sorted(documents.items())
    )
    return ",\n".join(rows)

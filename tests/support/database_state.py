"""The state of a knowledge base without times, and the differences of two states.

Records of runs and leases, and all times are left out. Numbers are rounded, since the last bits
depend on the machine.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.vector import Vector

from tests.support.stored_documents import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.context import Context

    Fields = dict[str, Any]
    State = dict[str, dict[str, Fields]]
    """Collection to document id to fields."""

EXCLUDED_COLLECTIONS: Final = {"runs", "leases"}
"""These collections are about runs, not about the knowledge base."""
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
"""These fields hold a time or a run id, and are left out."""
MAPS_KEYED_BY_DATA: Final = {"postings", "indexed", "ranks"}
"""The keys of these maps are data, so that none is left out."""
UNORDERED_FIELDS: Final = {"central"}
"""The order of these lists may depend on the last bit of similarities."""
DECIMALS: Final = 6
MAX_FIELD_LENGTH: Final = 40
"""A longer field is replaced by a digest."""
DIGESTED_COLLECTIONS: Final = {"lexicon", "facets"}
"""Each document of these large collections is replaced by a digest."""
HISTORY_FIELDS: Final = {
    "clusters": {"name", "description", "keywords", "central"},
    "lexicon": {"held"},
    "facets": {"held"},
}
"""These fields depend on the history of a knowledge base."""
MAX_LISTED_DIFFERENCES: Final = 30
"""At most this many differences are listed."""
_MISSING_VALUE: Final = object()


async def read_state(ctx: Context) -> State:
    """Return the state of a knowledge base."""
    collections = [collection.id async for collection in ctx.database.client.collections()]
    return {
        name: {key: _simplify(data, "") for key, data in (await documents(ctx, name)).items()}
        for name in sorted(collections)
        if name not in EXCLUDED_COLLECTIONS
    }


def digests(state: State) -> State:
    """Return the state with digests in place of long fields."""
    return {
        collection: {
            name: {"contents": _digest(data)}
            if collection in DIGESTED_COLLECTIONS
            else _shorten(data)
            for name, data in results.items()
        }
        for collection, results in state.items()
    }


def format_state(state: State) -> str:
    """Return a state as JSON, with one document on a line."""
    blocks = [
        f"{json.dumps(name)}: {{\n{_lines(results)}\n}}" for name, results in sorted(state.items())
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def without_history(state: State) -> State:
    """Return a state without the fields that depend on the order of its changes.

    - A cluster keeps its id, name, keywords and central passages while most of its passages stay.
      Here its members replace the id.
    - `held` of postings may count entries that were deleted since.
    - Golden queries stay while their passages exist, and health records of past nights are kept.
    - Empty fields and counts of 0 are left out.
    """
    members: dict[str, list[str]] = {}
    for chunk_id, chunk in state["chunks"].items():
        for topic in chunk.get("cluster_id") or ():
            members.setdefault(topic, []).append(chunk_id)
    text = json.dumps(state)
    for topic, names in members.items():
        text = text.replace(topic, f"topic of {_digest(sorted(names))}")
    parsed: State = json.loads(text)
    for name in ("golden_queries", "health"):
        parsed["meta"].pop(name)
    return {
        collection: {name: _present(collection, data) for name, data in results.items()}
        for collection, results in parsed.items()
    }


def differences(expected: State, actual: State) -> str:
    """Return the differences of a state from the expected one as text, empty if there are none."""
    results = list(_differences(expected, actual))
    omission_note = (
        [f"... and {len(results) - MAX_LISTED_DIFFERENCES} more"]
        if len(results) > MAX_LISTED_DIFFERENCES
        else []
    )
    return "\n".join(results[:MAX_LISTED_DIFFERENCES] + omission_note)


def _differences(expected: State, actual: State) -> Iterator[str]:
    for collection in sorted(expected.keys() | actual.keys()):
        expected_fields, actual_fields = expected.get(collection, {}), actual.get(collection, {})
        for name in sorted(expected_fields.keys() | actual_fields.keys()):
            place = f"{collection}/{name}"
            if name not in actual_fields:
                yield f"{place} is missing"
            elif name not in expected_fields:
                yield f"{place} should not be there"
            else:
                yield from _field_differences(place, expected_fields[name], actual_fields[name])


def _field_differences(place: str, expected: Fields, actual: Fields) -> Iterator[str]:
    for field in sorted(expected.keys() | actual.keys()):
        expected_value, actual_value = (
            expected.get(field, _MISSING_VALUE),
            actual.get(field, _MISSING_VALUE),
        )
        if expected_value != actual_value:
            difference = f"{_describe(actual_value)} and should be {_describe(expected_value)}"
            yield f"{place}: {field} is {difference}"


def _present(collection: str, data: Fields) -> Fields:
    """Return the fields of a document without its history."""
    counts = data.get("counts")
    if collection == "topics" and counts:
        data = data | {"counts": {kind: count for kind, count in counts.items() if count}}
    history_fields = HISTORY_FIELDS.get(collection, set())
    return {k: v for k, v in data.items() if v is not None and k not in history_fields}


def _describe(value: Any) -> str:
    if value is _MISSING_VALUE:
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 4 * MAX_FIELD_LENGTH else f"{text[: 4 * MAX_FIELD_LENGTH]}..."


def _simplify(value: Any, name: str) -> Any:
    """Return a field as JSON, without times."""
    match value:
        case dict():
            return _plain_map(value, name)
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


def _plain_map(value: Fields, name: str) -> Any:
    """Return the names of pending steps; other maps without times."""
    if name == "pending":
        return sorted(value)
    kept = (
        value
        if name in MAPS_KEYED_BY_DATA
        else {k: v for k, v in value.items() if k not in TIME_FIELDS}
    )
    return {key: _simplify(item, key) for key, item in sorted(kept.items())}


def _shorten(data: Fields) -> Fields:
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in data.items()}
    return {
        name: data[name] if len(text) <= MAX_FIELD_LENGTH else f"#{_digest(data[name])}"
        for name, text in texts.items()
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def _lines(documents: dict[str, Fields]) -> str:
    rows = (
        f"  {json.dumps(name)}: {json.dumps(data, sort_keys=True, ensure_ascii=False)}"
        for name, data in sorted(documents.items())
    )
    return ",\n".join(rows)

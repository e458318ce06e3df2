"""The state of a knowledge base: all that jobs keep, but for when; and how two states differ.

Left out are the records of runs and leases, and times: when something was made, seen or due.
Numbers are rounded, so that the last bits of a machine's arithmetic do not count.
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

NOT_KEPT: Final = {"runs", "leases"}
"""Collections about runs instead of the base."""
TIMES: Final = {
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
"""Fields with a time or a run id."""
NAMED: Final = {"postings", "indexed", "ranks"}
"""Maps whose keys are data: none is left out."""
UNORDERED: Final = {"central"}
"""Lists sorted by similarities that may differ only in the last bit."""
DECIMALS: Final = 6
SHORT: Final = 40
"""The length to which a field is written out; a longer one becomes a digest."""
LISTS: Final = {"lexicon", "facets"}
"""Large collections, of which each document is one digest."""
REMEMBERED: Final = {
    "clusters": {"name", "description", "keywords", "central"},
    "lexicon": {"held"},
    "facets": {"held"},
}
"""Fields that depend on the history of a base."""
TOLD: Final = 30
"""Differences that are listed individually."""
_GONE: Final = object()


async def state_of(ctx: Context) -> State:
    """The state of a knowledge base."""
    collections = [collection.id async for collection in ctx.database.client.collections()]
    return {
        name: {key: _plain(data, "") for key, data in (await documents(ctx, name)).items()}
        for name in sorted(collections)
        if name not in NOT_KEPT
    }


def digests(state: State) -> State:
    """The state with digests in place of long fields."""
    return {
        collection: {
            name: {"contents": _digest(data)} if collection in LISTS else _shortened(data)
            for name, data in results.items()
        }
        for collection, results in state.items()
    }


def to_text(state: State) -> str:
    """A state as JSON, with one document on a line."""
    blocks = [
        f"{json.dumps(name)}: {{\n{_lines(results)}\n}}" for name, results in sorted(state.items())
    ]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def without_history(state: State) -> State:
    """A state as if all that the base holds had been put in at once, as far as that can be told.

    What a base rightly remembers is left out, and nothing else:

    - A topic keeps its id while most of its passages stay, and its name, keywords and the passages
      that it was named after: here it is known by its members.
    - `held` of a list counts entries that were taken out since: it may be too high, never too low.
    - The golden queries stay while their passages are there, and nights are kept to compare with.
    - A field that holds nothing is none, and a count of none is none.
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
    """The differences of a state from the expected one, as text; empty if there are none."""
    results = list(_differences(expected, actual))
    more = [f"... and {len(results) - TOLD} more"] if len(results) > TOLD else []
    return "\n".join(results[:TOLD] + more)


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
                yield from _fields_that_differ(place, expected_fields[name], actual_fields[name])


def _fields_that_differ(place: str, expected: Fields, actual: Fields) -> Iterator[str]:
    for field in sorted(expected.keys() | actual.keys()):
        should, does = expected.get(field, _GONE), actual.get(field, _GONE)
        if should != does:
            yield f"{place}: {field} is {_told(does)} and should be {_told(should)}"


def _present(collection: str, data: Fields) -> Fields:
    """The fields of a document without its history."""
    counts = data.get("counts")
    if collection == "topics" and counts:
        data = data | {"counts": {kind: count for kind, count in counts.items() if count}}
    remembered = REMEMBERED.get(collection, set())
    return {k: v for k, v in data.items() if v is not None and k not in remembered}


def _told(value: Any) -> str:
    if value is _GONE:
        return "missing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 4 * SHORT else f"{text[: 4 * SHORT]}..."


def _plain(value: Any, name: str) -> Any:
    """A field as JSON, without times."""
    match value:
        case dict():
            return _plain_map(value, name)
        case Vector() | list():
            items = [_plain(item, "") for item in value]
            return sorted(items) if name in UNORDERED else items
        case float():
            return round(value, DECIMALS)
        case datetime():
            return value.isoformat()
    return value


def _plain_map(value: Fields, name: str) -> Any:
    """The names of pending steps; other maps without times."""
    if name == "pending":
        return sorted(value)
    kept = value if name in NAMED else {k: v for k, v in value.items() if k not in TIMES}
    return {key: _plain(item, key) for key, item in sorted(kept.items())}


def _shortened(data: Fields) -> Fields:
    short = {name: json.dumps(value, ensure_ascii=False) for name, value in data.items()}
    return {
        name: data[name] if len(text) <= SHORT else f"#{_digest(data[name])}"
        for name, text in short.items()
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def _lines(documents: dict[str, Fields]) -> str:
    rows = (
        f"  {json.dumps(name)}: {json.dumps(data, sort_keys=True, ensure_ascii=False)}"
        for name, data in sorted(documents.items())
    )
    return ",\n".join(rows)

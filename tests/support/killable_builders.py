"""Processes that build indexes, and others that write meanwhile, until they are killed.

A builder runs all `QUERIES`, which need indexes. It reports `step` before each step of a build, and
`built` when all queries were answered. A writer changes documents at random.
"""

import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from google.api_core.exceptions import Aborted
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions
from infra.local.embedded_firestore.storage import Store
from tests.support.killable_forks import report, serve

Fields = dict[str, Any]
"""What a document contains."""

PROJECT: Final = "built"
COLLECTIONS: Final = ("things", "shelves/one/things")
DOCUMENTS: Final = 1_000
"""Each collection has places for this many documents. An index is built in several steps."""
_BATCH: Final = 500
"""A new database gets this many documents at a time."""
_CHANGES: Final = 20
"""A writer's commit changes this many documents."""
_SIZES: Final = 1_000
"""Fewer than the documents, so that some have the same."""


def _define(scope: str, *fields: dict[str, object]) -> dict[str, object]:
    return {"collectionGroup": "things", "queryScope": scope, "fields": fields}


DEFINITIONS: Final = Definitions.from_json(
    {
        "indexes": [
            _define(
                "COLLECTION",
                {"fieldPath": "kind", "order": "ASCENDING"},
                {"fieldPath": "size", "order": "DESCENDING"},
            ),
            _define(
                "COLLECTION_GROUP",
                {"fieldPath": "kind", "order": "ASCENDING"},
                {"fieldPath": "size", "order": "ASCENDING"},
            ),
            _define(
                "COLLECTION",
                {"fieldPath": "place", "vectorConfig": {"dimension": 2, "flat": {}}},
            ),
        ]
    }
)
NO_INDEXES: Final = Definitions.from_json(
    {"fieldOverrides": [{"collectionGroup": "things", "fieldPath": "*", "indexes": []}]}
)
"""A process that opens the folder with these removes the indexes of all fields."""


class Query(NamedTuple):
    """A query, and what it must answer.

    Attributes:
        make: Makes the query.
        matches: Whether a document is in the answer.
        field: What the answer is ordered by, before paths.
        descends: Whether the order is descending.
    """

    make: Callable[[AsyncClient], Any]
    matches: Callable[[str, Fields], bool]
    field: str = ""
    descends: bool = False

    def scan(self, documents: dict[str, Fields]) -> list[str]:
        """Return the paths of the answer, from all documents."""
        places = [
            (fields.get(self.field, 0), path)
            for path, fields in documents.items()
            if self.matches(path, fields)
        ]
        return [path for _, path in sorted(places, reverse=self.descends)]


QUERIES: Final = {
    "a field": Query(
        lambda client: client.collection("things").order_by("size"),
        lambda path, _: path.startswith("things/"),
        "size",
    ),
    "members of a list": Query(
        lambda client: client.collection("things").where(
            filter=FieldFilter("tags", "array_contains", "red")
        ),
        lambda path, fields: path.startswith("things/") and "red" in fields["tags"],
    ),
    "two fields": Query(
        lambda client: (
            client.collection("things")
            .where(filter=FieldFilter("kind", "==", 1))
            .order_by("size", "DESCENDING")
        ),
        lambda path, fields: path.startswith("things/") and fields["kind"] == 1,
        "size",
        descends=True,
    ),
    "two fields of a group": Query(
        lambda client: (
            client.collection_group("things")
            .where(filter=FieldFilter("kind", "==", 2))
            .order_by("size")
        ),
        lambda _, fields: fields["kind"] == 2,
        "size",
    ),
    "a vector": Query(
        lambda client: client.collection("things").find_nearest(
            "place", Vector([0.0, 0.0]), distance_measure=DistanceMeasure.EUCLIDEAN, limit=1_000
        ),
        lambda path, fields: path.startswith("things/") and "place" in fields,
        "size",
    ),
}


def make_fields(generator: random.Random) -> Fields:
    """Make a document. A third of all have a vector, because a query returns 1,000 at most."""
    size = generator.randrange(_SIZES)
    fields = {
        "kind": generator.randrange(3),
        "size": size,
        "tags": generator.sample(["red", "green", "blue"], generator.randrange(3)),
    }
    return fields | {"place": Vector([0.0, float(size)])} if generator.randrange(3) == 0 else fields


def open_databases(folder: Path, definitions: Definitions = DEFINITIONS) -> Databases:
    """Open the folder that builders and writers share."""
    return Databases(folder, lambda _: definitions, durable=False)


async def fill(folder: Path) -> None:
    """Write the first documents."""
    databases = open_databases(folder)
    client = databases.make_client(PROJECT)
    generator = random.Random(0)  # noqa: S311 - no secret
    for collection in COLLECTIONS:
        for start in range(0, DOCUMENTS, _BATCH):
            batch = client.batch()
            for number in range(start, start + _BATCH):
                batch.set(client.document(f"{collection}/{number}"), make_fields(generator))
            await batch.commit()
    databases.close()


async def read_all(client: AsyncClient) -> dict[str, Fields]:
    """Read all documents, without an index."""
    return {
        f"{collection}/{snapshot.id}": snapshot.to_dict() or {}
        for collection in COLLECTIONS
        for snapshot in await client.collection(collection).get()
    }


async def run_query(client: AsyncClient, query: Query) -> list[str]:
    """Return the paths of the documents that a query answers."""
    return [snapshot.reference.path for snapshot in await query.make(client).get()]


async def _build(client: AsyncClient, name: str) -> None:
    build = Store.build_indexes

    def build_and_report(store: Store, indexes: Any, after: Any) -> Any:
        report(name, "step")
        return build(store, indexes, after)

    with patch.object(Store, "build_indexes", build_and_report):
        await asyncio.gather(*(run_query(client, query) for query in QUERIES.values()))
    report(name, "built")
    await asyncio.Event().wait()


async def _write(client: AsyncClient, name: str) -> None:
    generator = random.Random(name)  # noqa: S311 - no secret
    while True:
        batch = client.batch()
        for _ in range(_CHANGES):
            number = generator.randrange(DOCUMENTS)
            document = client.document(f"{generator.choice(COLLECTIONS)}/{number}")
            if generator.randrange(3):
                batch.set(document, make_fields(generator))
            else:
                batch.delete(document)
        try:
            await batch.commit()
        except Aborted:
            continue
        report(name, "wrote")


async def _run(folder: Path, name: str) -> None:
    client = open_databases(folder).make_client(PROJECT)
    await (_build if name.startswith("builder") else _write)(client, name)


if __name__ == "__main__":
    serve(lambda name: _run(Path(sys.argv[1]), name))

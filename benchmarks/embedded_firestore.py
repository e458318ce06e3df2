"""The embedded Firestore next to Google's emulator: the same requests, in turn.

Usage: python -m benchmarks.embedded_firestore [PASSAGES ...]

Each number of passages, by default 5,000 and 20,000, is written into both. A passage has 1,000
characters, eight facets and a vector of 384 dimensions. The emulator needs 5 GB for 20,000.
Queries leave the vector out, because Google's client takes long to decode one, whoever sends it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import apsw
import numpy as np
from google.cloud.firestore import ArrayUnion, AsyncClient, Increment
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from benchmarks.measurement import (
    compute_ratio,
    make_measurement,
    measure_interleaved,
    print_table,
)
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions
from tests.support.emulator import run_emulator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    Operation = Callable[[AsyncClient, int], Awaitable[object]]
    """A request. The number differs in each round."""

PASSAGES: Final = (5_000, 20_000)
DIMENSION: Final = 384
ROUNDS: Final = 15
SLOW_ROUNDS: Final = 5
"""The rounds of vector queries, which take the emulator seconds."""
COLLECTION: Final = "chunks"
SELECTED: Final = ["text", "source_id", "position", "dated_at"]
"""The fields that queries return."""
HIGHLIGHT_WRITES: Final = 44
"""The documents that one highlight writes in Carrel: itself, its source, and its postings."""
_WORDS: Final = [f"word{number}" for number in range(3_000)]
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def make_passages(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield documents with their ids. The same count makes the same documents."""
    generator = np.random.default_rng(1)
    chooser = random.Random(1)  # noqa: S311 - no secret
    for number in range(count):
        vector = generator.normal(size=DIMENSION)
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        yield (
            f"{number:08d}",
            {
                "text": " ".join(chooser.choices(_WORDS, k=120)),
                "source_id": f"source-{number // 10}",
                "position": number % 10,
                "dated_at": _START + timedelta(minutes=number),
                "facets": [
                    f"tag:second-{number % 2}",
                    f"tag:seventh-{number % 7}",
                    f"tag:hundredth-{number % 100}",
                    *(f"author:{chooser.randrange(40)}-{author}" for author in range(5)),
                ],
                "embedding": Vector(vector.tolist()),
            },
        )


async def write_passages(client: AsyncClient, count: int) -> float:
    """Write all passages in commits of 100, and return the seconds."""
    started = time.perf_counter()
    batch = client.batch()
    for document_id, fields in make_passages(count):
        batch.set(client.collection(COLLECTION).document(document_id), fields)
        if len(batch) == 100:
            await batch.commit()
            batch = client.batch()
    if len(batch):
        await batch.commit()
    return time.perf_counter() - started


def make_operations(count: int) -> dict[str, Operation]:  # noqa: C901 - a function a request
    """Return the requests by name, for a base with this many passages."""
    generator = np.random.default_rng(2)
    queries = [Vector(generator.normal(size=DIMENSION).tolist()) for _ in range(100)]

    def name(number: int) -> str:
        return f"{number * 7919 % count:08d}"

    def where(client: AsyncClient, field: str, operator: str, value: object) -> Any:
        return select(client).where(filter=FieldFilter(field, operator, value))

    def select(client: AsyncClient) -> Any:
        return client.collection(COLLECTION).select(SELECTED)

    async def get(client: AsyncClient, number: int) -> object:
        return await client.collection(COLLECTION).document(name(number)).get()

    async def get_fields(client: AsyncClient, number: int) -> object:
        document = client.collection(COLLECTION).document(name(number))
        return await document.get(field_paths=["source_id", "position"])

    def get_all(size: int) -> Operation:
        async def run(client: AsyncClient, number: int) -> object:
            collection = client.collection(COLLECTION)
            references = [
                collection.document(name(number * size + position)) for position in range(size)
            ]
            snapshots = client.get_all(references, field_paths=SELECTED)
            return [snapshot async for snapshot in snapshots]

        return run

    async def source(client: AsyncClient, number: int) -> object:
        query = where(client, "source_id", "==", f"source-{number * 37 % (count // 10)}")
        return await query.order_by("position").get()

    async def newest_of_facet(client: AsyncClient, number: int) -> object:
        query = where(client, "facets", "array_contains", f"tag:seventh-{number % 7}")
        return await query.order_by("dated_at", direction="DESCENDING").limit(20).get()

    async def page(client: AsyncClient, number: int) -> object:
        after = {"dated_at": _START + timedelta(minutes=number * 7919 % count)}
        query = select(client).order_by("dated_at")
        return await query.start_after(after).limit(50).get()

    async def dates(client: AsyncClient, number: int) -> object:
        since = _START + timedelta(minutes=number * 7919 % count)
        query = where(client, "dated_at", ">=", since)
        until = FieldFilter("dated_at", "<", since + timedelta(minutes=30))
        return await query.where(filter=until).order_by("dated_at").get()

    async def names(client: AsyncClient, number: int) -> object:
        query = client.collection(COLLECTION).order_by("__name__").select(["__name__"])
        start = client.collection(COLLECTION).document(name(number))
        return await query.start_at({"__name__": start}).limit(300).get()

    async def count_facet(client: AsyncClient, number: int) -> object:
        query = where(client, "facets", "array_contains", f"tag:hundredth-{number % 100}")
        return await query.count().get()

    async def count_all(client: AsyncClient, _: int) -> object:
        return await client.collection(COLLECTION).count().get()

    def nearest(tag: str | None) -> Operation:
        async def run(client: AsyncClient, number: int) -> object:
            query: Any = client.collection(COLLECTION).select([*SELECTED, "distance"])
            if tag:
                query = query.where(filter=FieldFilter("facets", "array_contains", tag))
            nearest_query = query.find_nearest(
                "embedding",
                queries[number % len(queries)],
                distance_measure=DistanceMeasure.COSINE,
                limit=50,
                distance_result_field="distance",
            )
            return await nearest_query.get()

        return run

    async def set_one(client: AsyncClient, number: int) -> object:
        fields = {"number": number, "text": "a" * 300}
        return await client.collection("tasks").document(f"{number % 20}").set(fields)

    async def highlight(client: AsyncClient, number: int) -> object:
        return await make_highlight(client, number, count).commit()

    return {
        "get": get,
        "get, two fields": get_fields,
        "get_all of 10": get_all(10),
        "get_all of 50": get_all(50),
        "equality, ordered: 10": source,
        "array_contains, newest 20": newest_of_facet,
        "cursor, next 50": page,
        "range: 30": dates,
        "names only: 300": names,
        "count of 1 %": count_facet,
        "count of all": count_all,
        "nearest 50": nearest(None),
        "nearest 50 of 1 %": nearest("tag:hundredth-7"),
        "nearest 50 of 14 %": nearest("tag:seventh-3"),
        "nearest 50 of 50 %": nearest("tag:second-1"),
        "commit of 1": set_one,
        f"commit of {HIGHLIGHT_WRITES}": highlight,
    }


def make_highlight(client: AsyncClient, number: int, count: int) -> Any:
    """Return a batch as Carrel's for one highlight: a passage, its source, and its postings."""
    generator = random.Random(number)  # noqa: S311 - no secret
    batch = client.batch()
    passage_id, fields = next(make_passages(1))
    passage_id = f"new-{number}-{passage_id}"
    batch.set(client.collection(COLLECTION).document(passage_id), fields)
    batch.set(
        client.collection("sources").document(f"source-{number % (count // 10)}"),
        {"title": "A book", "chunks": Increment(1)},
        merge=True,
    )
    for word in generator.sample(_WORDS, HIGHLIGHT_WRITES - 2):
        batch.set(
            client.collection("postings").document(word),
            {"documents": ArrayUnion([passage_id]), "count": Increment(1)},
            merge=True,
        )
    return batch


def make_definitions() -> Definitions:
    """Return the indexes of the requests."""
    facets = {"fieldPath": "facets", "arrayConfig": "CONTAINS"}
    vector = {"fieldPath": "embedding", "vectorConfig": {"dimension": DIMENSION, "flat": {}}}
    dates = {"fieldPath": "dated_at", "order": "DESCENDING"}
    sources = {"fieldPath": "source_id", "order": "ASCENDING"}
    positions = {"fieldPath": "position", "order": "ASCENDING"}
    scope = {"collectionGroup": COLLECTION, "queryScope": "COLLECTION"}
    composites = ([vector], [facets, vector], [facets, dates], [sources, positions])
    return Definitions.from_json(
        {
            "indexes": [{**scope, "fields": fields} for fields in composites],
            "fieldOverrides": [
                {"collectionGroup": COLLECTION, "fieldPath": name, "indexes": []}
                for name in ("text", "embedding")
            ],
        }
    )


async def measure(count: int, folder: Path) -> None:
    """Write and measure bases of this many passages, and print a table."""
    databases = Databases(folder, lambda _: make_definitions())
    project = f"bench-{uuid.uuid4().hex[:8]}"
    clients = {"embedded": databases.make_client(project), "emulator": AsyncClient(project=project)}
    seconds = {name: await write_passages(client, count) for name, client in clients.items()}
    rows = [make_row("write all, s", [seconds["embedded"]], [seconds["emulator"]], 1)]
    for name, operation in make_operations(count).items():
        measurements = {
            kind: make_measurement(_repeat(operation, client)) for kind, client in clients.items()
        }
        is_slow = name.startswith("nearest")
        durations = await measure_interleaved(measurements, SLOW_ROUNDS if is_slow else ROUNDS)
        rows.append(make_row(name, durations["embedded"], durations["emulator"], 1_000))
    columns = ["", "embedded, ms", "emulator, ms", "embedded / emulator"]
    print_table(f"{count:,} passages of {DIMENSION} dimensions", columns, rows)
    await measure_highlight(databases, project, count)
    databases.close()


def _repeat(operation: Operation, client: AsyncClient) -> Callable[[], Awaitable[object]]:
    """Return a function that runs an operation with another number each time."""
    numbers = count_from(1)

    async def run() -> object:
        return await operation(client, next(numbers))

    return run


def make_row(
    name: str, embedded: Sequence[float], emulator: Sequence[float], factor: int
) -> list[str]:
    """Return a row with both medians and the median of the ratios."""
    return [
        name,
        f"{median(embedded) * factor:.2f}",
        f"{median(emulator) * factor:.2f}",
        f"{compute_ratio(embedded, emulator):.3f}",
    ]


async def measure_highlight(databases: Databases, project: str, count: int) -> None:
    """Print what one highlight writes into the file, and the file's size."""
    service = databases.open(project)
    connection = apsw.Connection(str(service.store.path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = service.store.path.stat().st_size
    tables = ("documents", "entries", "vectors")

    def count_rows() -> list[int]:
        statements = (f"SELECT count(*) FROM {table}" for table in tables)  # noqa: S608
        return [int(connection.execute(statement).get) for statement in statements]

    before = count_rows()
    client = databases.make_client(project)
    started = time.perf_counter()
    await make_highlight(client, 1_000_000, count).commit()
    milliseconds = (time.perf_counter() - started) * 1_000
    written = service.store.path.with_name(service.store.path.name + "-wal").stat().st_size
    added = [after - earlier for earlier, after in zip(before, count_rows(), strict=True)]
    counts = ", ".join(f"{number} {table}" for number, table in zip(added, tables, strict=True))
    print(f"\n  the file: {size / 1e6:.0f} MB, {size / count:,.0f} bytes a passage")
    print(
        f"  a highlight of {HIGHLIGHT_WRITES} writes: {milliseconds:.1f} ms, "
        f"{written / 1e3:.0f} KB to the log, new rows: {counts}"
    )


def main(counts: Sequence[int]) -> None:
    """Start an emulator, and measure each number of passages."""
    for count in counts:
        with run_emulator() as host, tempfile.TemporaryDirectory() as folder:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(measure(count, Path(folder)))


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or PASSAGES)

"""The file: opened by several, with indexes that follow their definitions, and clear refusals."""

import asyncio
import multiprocessing
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from google.api_core.exceptions import Aborted, DataLoss, FailedPrecondition, Unknown
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.local.embedded_firestore import storage
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions, Index, Kind
from infra.local.embedded_firestore.errors import DatabaseFileError
from infra.local.embedded_firestore.files import FORMAT
from infra.local.embedded_firestore.storage import BATCH, START

OpenFolder = Callable[[Definitions], Databases]


def define(*fields: dict[str, Any]) -> Definitions:
    index = {"collectionGroup": "c", "queryScope": "COLLECTION", "fields": list(fields)}
    return Definitions.from_json({"indexes": [index]})


COMPOSITE = define(
    {"fieldPath": "a", "order": "ASCENDING"}, {"fieldPath": "b", "order": "DESCENDING"}
)
VECTORS = define({"fieldPath": "v", "vectorConfig": {"dimension": 2, "flat": {}}})


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[OpenFolder]:
    """Opens the same folder again and again, as several processes do."""
    opened = []

    def open_one(definitions: Definitions) -> Databases:
        databases = Databases(tmp_path, lambda _: definitions, durable=False)
        opened.append(databases)
        return databases

    yield open_one
    for databases in opened:
        databases.close()


def query_composite(client: AsyncClient) -> Any:
    return (
        client.collection("c").where(filter=FieldFilter("a", "==", 1)).order_by("b", "DESCENDING")
    )


def count_rows(databases: Databases, table: str) -> int:
    statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - a constant of these tests
    return int(databases.open("p").store.reader.execute(statement).get)


async def get_ids(query: Any) -> list[str]:
    return [snapshot.id for snapshot in await query.get()]


async def write_many(client: AsyncClient, count: int) -> None:
    batch = client.batch()
    for number in range(count):
        batch.set(client.document(f"c/{number:04}"), {"a": 1, "b": number})
    await batch.commit()


async def test_indexes_that_are_needed_at_once_are_built_together(
    open_folder: OpenFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases = open_folder(Definitions())
    client = databases.make_client("p")
    await write_many(client, BATCH + 1)
    passes = []
    build = storage.Store.build_indexes

    def record(store: storage.Store, indexes: Any, after: Any) -> Any:
        passes.append({stored.index.fields[0][0] for stored in indexes})
        return build(store, indexes, after)

    monkeypatch.setattr(storage.Store, "build_indexes", record)
    collection = client.collection("c")
    queries = [collection.where(filter=FieldFilter(name, ">", 0)).limit(1) for name in ("a", "b")]
    assert [["0000"], ["0001"]] == await asyncio.gather(*map(get_ids, queries))
    assert 2 * [{("a",), ("b",)}] == passes


async def test_a_document_has_no_entries_before_a_query(open_folder: OpenFolder) -> None:
    databases = open_folder(COMPOSITE)
    client = databases.make_client("p")
    await client.document("c/x").set({"a": 1, "b": 2})
    assert 0 == count_rows(databases, "entries")
    await get_ids(query_composite(client))
    assert 1 == count_rows(databases, "entries")
    await client.document("c/y").set({"a": 1, "b": 3})
    assert 2 == count_rows(databases, "entries")


async def test_eager_indexes_are_never_built_later(open_folder: OpenFolder) -> None:
    [(index, _)] = COMPOSITE.indexes
    databases = open_folder(replace(COMPOSITE, eager=frozenset({index})))
    client = databases.make_client("p")
    await write_many(client, 3)
    store = databases.open("p").store

    assert store.find_index(store.reader, index)
    assert ["0002", "0001", "0000"] == await get_ids(query_composite(client))


async def test_an_index_of_names_follows_documents(open_folder: OpenFolder) -> None:
    client = open_folder(Definitions()).make_client("p")
    group = client.collection_group("c")
    assert [] == await get_ids(group)
    for _ in range(2):
        await client.document("c/x").set({"a": 1})
        assert ["x"] == await get_ids(group)
        await client.document("c/x").delete()
        assert [] == await get_ids(group)


async def test_commits_go_on_while_an_index_is_built(open_folder: OpenFolder) -> None:
    """A builder that was killed after a step leaves the rest to the next query."""
    builder, writer = open_folder(COMPOSITE), open_folder(COMPOSITE)
    client = writer.make_client("p")
    await write_many(client, 2 * BATCH + 1)
    store = builder.open("p").store
    [(index, _)] = COMPOSITE.indexes
    with store.write():
        store.register_index(index)
    with store.write():
        assert store.build_indexes(store.list_unbuilt(index), START)
    await client.document("c/0000").update({"b": 9_000})
    await client.document("c/0001").delete()
    await client.document(f"c/{BATCH + 5:04}").update({"b": 9_001})

    ids = await get_ids(query_composite(client))
    assert [f"{BATCH + 5:04}", "0000"] == ids[:2]
    assert ids[2:] == [
        f"{number:04}" for number in reversed(range(2, 2 * BATCH + 1)) if number != BATCH + 5
    ]


async def test_an_index_goes_with_its_definition(open_folder: OpenFolder) -> None:
    first = open_folder(COMPOSITE)
    await write_many(first.make_client("p"), 3)
    await get_ids(query_composite(first.make_client("p")))

    second = open_folder(Definitions())
    with pytest.raises(FailedPrecondition):
        await get_ids(query_composite(second.make_client("p")))
    assert 0 == count_rows(second, "entries")

    third = open_folder(COMPOSITE).make_client("p")
    assert ["0002", "0001", "0000"] == await get_ids(query_composite(third))


async def test_processes_see_each_others_commits(open_folder: OpenFolder) -> None:
    one, other = (open_folder(Definitions()).make_client("p") for _ in range(2))
    by_a = other.collection("c").order_by("a")
    await one.document("c/x").set({"a": 1})
    assert ["x"] == await get_ids(by_a)
    await other.document("c/y").set({"a": 0})
    await one.document("c/z").set({"a": 2})
    assert ["y", "x", "z"] == await get_ids(by_a)


async def test_times_rise_though_the_clock_stands_still(
    open_folder: OpenFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [open_folder(Definitions()).make_client("p") for _ in range(2)]
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    results = [
        await client.document("c/x").set({"a": number, "b": turn})
        for turn in range(2)
        for number, client in enumerate(clients)
    ]
    times = [result.update_time for result in results]
    assert times == sorted(set(times))


async def test_expired_documents_go_after_a_commit(open_folder: OpenFolder) -> None:
    ttl = {"collectionGroup": "c", "fieldPath": "at", "ttl": True, "indexes": []}
    definitions = Definitions.from_json({"fieldOverrides": [ttl]})
    unswept, swept = open_folder(Definitions()), open_folder(definitions)
    past, future = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 9000))
    client = unswept.make_client("p")
    for name, value in {"past": past, "future": future, "text": "2000", "none": None}.items():
        await client.document(f"a/b/c/{name}").set({"at": value})
    await swept.make_client("p").document("d/x").set({"at": past})
    swept.close()

    assert ["future", "none", "text"] == await get_ids(client.collection("a/b/c"))
    assert ["x"] == await get_ids(client.collection("d"))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_process_opens_the_file_itself(open_folder: OpenFolder) -> None:
    databases = open_folder(Definitions())
    parent = databases.open("p").store

    def is_shared() -> None:
        sys.exit(databases.open("p").store is parent)

    child = multiprocessing.get_context("fork").Process(target=is_shared)
    child.start()
    child.join()
    assert 0 == child.exitcode


async def test_a_long_wait_for_other_writers_aborts(open_folder: OpenFolder) -> None:
    databases = open_folder(Definitions())
    client = databases.make_client("p")
    store = databases.open("p").store
    store.writer.set_busy_timeout(1)
    other = store.connect()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Aborted, match="contention"):
        await client.document("c/x").set({"a": 1})
    other.execute("ROLLBACK")
    await client.document("c/x").set({"a": 1})
    other.close()


async def test_a_file_that_was_deleted_answers_no_call(
    open_folder: OpenFolder, tmp_path: Path
) -> None:
    client = open_folder(Definitions()).make_client("p")
    await client.document("c/x").set({"a": 1})
    shutil.rmtree(tmp_path / "p")
    for call in (
        client.document("c/x").set({"a": 2}),
        client.document("c/x").get(),
        client.collection("c").get(),
        client.collection("c").count().get(),
    ):
        with pytest.raises(DataLoss, match="was deleted or replaced while it was open"):
            await call


def test_only_the_owner_reads_the_files(open_folder: OpenFolder, tmp_path: Path) -> None:
    open_folder(Definitions()).open("p")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "p").iterdir()}
    assert {0o600} == modes
    assert 0o700 == stat.S_IMODE((tmp_path / "p").stat().st_mode)


async def test_damage_is_noticed_after_an_unclean_end(
    open_folder: OpenFolder, tmp_path: Path
) -> None:
    """The copy of an open file and its log is what a kill leaves."""
    databases = open_folder(Definitions())
    client = databases.make_client("p")
    await write_many(client, 400)
    databases.open("p").store.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
    await client.document("c/last").set({"a": 1})
    for project in ("killed", "damaged"):
        shutil.copytree(tmp_path / "p", tmp_path / project)
    with (tmp_path / "damaged" / "default.sqlite").open("r+b") as file:
        file.seek(-4_096 * 5, os.SEEK_END)
        file.write(bytes(4_096 * 4))

    for project in ("killed", "damaged"):
        databases.open(project).store.check.join()
    killed = databases.make_client("killed")
    assert (await killed.document("c/last").get()).exists
    with pytest.raises(DataLoss, match="is damaged"):
        await databases.make_client("damaged").document("c/last").get()


async def test_a_full_disk_refuses_commits_and_keeps_the_rest(open_folder: OpenFolder) -> None:
    databases = open_folder(Definitions())
    client = databases.make_client("p")
    await client.document("c/x").set({"a": 1})
    writer = databases.open("p").store.writer
    writer.pragma("max_page_count", writer.pragma("page_count"))
    with pytest.raises(Unknown, match=r"The disk of .* is full"):
        await write_many(client, 400)
    assert ["x"] == await get_ids(client.collection("c"))

    writer.pragma("max_page_count", 1_000)
    await write_many(client, 400)
    assert 401 == len(await get_ids(client.collection("c")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_refused(open_folder: OpenFolder, tmp_path: Path) -> None:
    open_folder(Definitions()).open("p")
    for path in tmp_path.rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    with pytest.raises(DatabaseFileError, match="cannot be written"):
        open_folder(Definitions()).open("p")
    (tmp_path / "p").chmod(0o700)


async def test_removed_vectors_are_purged_when_one_process_opens_the_file(
    open_folder: OpenFolder,
) -> None:
    """Another process may still have to learn of the removal."""
    first, second = open_folder(VECTORS), open_folder(VECTORS)
    client = first.make_client("p")
    await client.document("c/x").set({"v": Vector([1.0, 0.0])})
    nearest = client.collection("c").find_nearest(
        "v", Vector([1.0, 0.0]), distance_measure=DistanceMeasure.COSINE, limit=5
    )
    await get_ids(nearest)
    await client.document("c/x").delete()
    assert 1 == count_rows(second, "vectors")
    first.close()
    second.close()
    assert 0 == count_rows(second, "vectors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (f"PRAGMA user_version = {FORMAT + 1}", "later version"),
        ("PRAGMA application_id = 0", "another program"),
        ("PRAGMA application_id = 0; PRAGMA user_version = 0", "another program"),
        (None, "damaged"),
    ],
)
def test_refuses_what_it_cannot_open(
    open_folder: OpenFolder, tmp_path: Path, change: str | None, message: str
) -> None:
    file = open_folder(Definitions()).open("p").store.path
    if change:
        connection = apsw.Connection(str(file))
        connection.execute(change)
        connection.close()
    else:
        (tmp_path / "q").mkdir()
        file = tmp_path / "q" / "default.sqlite"
        file.write_bytes(b"not a database" * 1_000)
    for _ in range(2):  # a refusal leaves no lock behind
        with pytest.raises(DatabaseFileError, match=message):
            open_folder(Definitions()).open(file.parent.name)


def test_a_stored_definition_is_read_as_it_was() -> None:
    ascending, descending, contains = Kind.ASCENDING, Kind.DESCENDING, Kind.CONTAINS
    for fields in (
        (),
        ((("a",), ascending),),
        ((("a",), descending),),
        ((("a",), contains), (("b", "c.d"), descending)),
        ((("__name__",), descending),),
    ):
        index = Index("c", group=True, fields=fields)
        assert index == Index.from_json(index.to_json())

"""Processes are killed at random moments: no answered commit is lost, and indexes stay complete."""

import random
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from tests.support import killable_builders
from tests.support.killable_builders import NO_INDEXES, QUERIES, read_all, run_query
from tests.support.killable_forks import run_forks
from tests.support.killable_writers import (
    COLLECTION,
    DOCUMENTS,
    PROGRESS,
    PROJECT,
    kill_writers,
    open_databases,
)

WRITERS = 4


@pytest.mark.parametrize(
    "kills", [12, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"]
)
async def test_killed_writers_lose_no_answered_commit(
    tmp_path: Path, kills: int, kill_generator: random.Random
) -> None:
    answered = kill_writers(tmp_path, writers=WRITERS, kills=kills, generator=kill_generator)

    databases = open_databases(tmp_path)
    client = databases.make_client(PROJECT)
    stored = {
        int(snapshot.id): snapshot.get("commit")
        for snapshot in await client.collection(PROGRESS).get()
        if snapshot.id != "shared"
    }
    # A commit may be stored whose answer did not get through, but no other.
    for writer, commit in answered.items():
        assert stored[writer] >= commit
    documents = await client.collection(COLLECTION).get()
    assert {
        f"{writer}-{commit}-{number}"
        for writer, last in stored.items()
        for commit in range(1, last + 1)
        for number in range(DOCUMENTS)
    } == {document.id for document in documents}
    shared = await client.collection(PROGRESS).document("shared").get()
    assert sum(stored.values()) == shared.get("count")

    # Indexes and vectors agree with the documents.
    last = max(stored.values())
    query = client.collection(COLLECTION).where(filter=FieldFilter("at", "==", last))
    assert {snapshot.id for snapshot in documents if snapshot.get("at") == last} == {
        snapshot.id for snapshot in await query.get()
    }
    nearest: Any = client.collection(COLLECTION).find_nearest(
        "vector", Vector([0.0, 1.0, 0.0]), distance_measure=DistanceMeasure.EUCLIDEAN, limit=1_000
    )
    assert min(len(documents), 1_000) == len(await nearest.get())
    databases.close()
    assert "ok" == check_file(tmp_path)


@pytest.mark.parametrize(
    "kills", [2, pytest.param(30, marks=pytest.mark.slow)], ids=["few", "many"]
)
async def test_an_index_is_complete_although_its_builder_was_killed(
    tmp_path: Path, kills: int, kill_generator: random.Random
) -> None:
    """Others write meanwhile, and another process builds the same, which may be killed, too."""
    await killable_builders.fill(tmp_path)
    killed = 0
    with run_forks(killable_builders.__name__, tmp_path) as forks:
        for attempt in count():
            names = [f"{role}-{attempt}" for role in ("builder-1", "builder-2", "writer")]
            victim, other, _ = names
            for name in names:
                forks.start(name)
            steps = kill_generator.randrange(1, 5)
            reports: list[list[str]] = []
            while reports.count([victim, "step"]) < steps and [victim, "built"] not in reports:
                reports.append(forks.read())
            killed += [victim, "built"] not in reports
            forks.kill(victim, after=kill_generator.uniform(0, 0.02))
            if kill_generator.random() < 0.5:
                while [other, "built"] not in reports:
                    reports.append(forks.read())
            for name in names[1:]:
                forks.kill(name)
            await compare_indexes_with_scan(tmp_path)
            if killed == kills:
                break


async def compare_indexes_with_scan(folder: Path) -> None:
    """Compare what the indexes answer with the documents, then remove the indexes."""
    databases = killable_builders.open_databases(folder)
    client = databases.make_client(killable_builders.PROJECT)
    documents = await read_all(client)
    for name, query in QUERIES.items():
        assert (name, query.scan(documents)) == (name, await run_query(client, query))
    databases.close()
    assert "ok" == check_file(folder)
    databases = killable_builders.open_databases(folder, NO_INDEXES)
    databases.make_client(killable_builders.PROJECT)
    databases.close()


def check_file(folder: Path) -> object:
    [file] = folder.rglob("*.sqlite")
    return apsw.Connection(str(file)).execute("PRAGMA integrity_check").get

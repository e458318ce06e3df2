"""Writing processes are killed at random moments, and no answered commit is lost or halved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from tests.support.killable_writers import (
    COLLECTION,
    DOCUMENTS,
    PROGRESS,
    PROJECT,
    kill_writers,
    open_databases,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path

pytestmark = pytest.mark.anyio

WRITERS = 4


@pytest.mark.parametrize(
    "kills", [12, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"]
)
async def test_killed_writers_lose_no_answered_commit(
    tmp_path: Path, kills: int, kill_generator: random.Random
) -> None:
    answered = kill_writers(tmp_path, writers=WRITERS, kills=kills, generator=kill_generator)

    assert kills == answered.kills
    databases = open_databases(tmp_path)
    client = databases.make_client(PROJECT)
    stored = {
        int(snapshot.id): snapshot.get("commit")
        for snapshot in await client.collection(PROGRESS).get()
        if snapshot.id != "shared"
    }
    # A commit may be stored whose answer did not get through, but no other.
    for writer, commit in answered.commits.items():
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


def check_file(folder: Path) -> object:
    [file] = folder.rglob("*.sqlite")
    return apsw.Connection(str(file)).execute("PRAGMA integrity_check").get

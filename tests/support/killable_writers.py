"""Processes that write to an embedded Firestore until they are killed.

A writer reports its number and that of every commit that was answered.

A commit writes `DOCUMENTS` documents that name it, moves the writer's `progress` document to it,
and increments a number that all writers share.
"""

import random
import sys
from pathlib import Path
from typing import Final

from google.api_core.exceptions import Aborted
from google.cloud.firestore import ArrayUnion, Increment
from google.cloud.firestore_v1.vector import Vector

from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions, Index
from tests.support.killable_forks import report, run_forks, serve

DOCUMENTS: Final = 5
"""The documents of a commit."""
COLLECTION: Final = "written"
PROGRESS: Final = "progress"


PROJECT: Final = "killed"
"""The project of the writers' database."""
_VECTORS: Final = Index("written", group=False, fields=(), vector=("vector",), dimension=3)
DEFINITIONS: Final = Definitions(indexes=frozenset({(_VECTORS, False)}))
"""The writers' vectors can be searched."""


def open_databases(folder: Path, *, durable: bool = True) -> Databases:
    """Open the folder of the database that the writers share."""
    return Databases(folder, lambda _: DEFINITIONS, durable=durable)


def kill_writers(
    folder: Path, *, writers: int, kills: int, generator: random.Random
) -> dict[int, int]:
    """Run writers, and kill one after the other at random moments.

    Returns:
        The last commit of each writer that was answered.
    """
    answered: dict[int, int] = {}
    with run_forks("tests.support.killable_writers", folder) as forks:

        def read_until(writer: int, commits: int) -> None:
            """Read until a writer was answered this many times."""
            while commits:
                number, commit = map(int, forks.read())
                answered[number] = max(commit, answered.get(number, 0))
                commits -= number == writer

        for writer in range(writers):
            forks.start(f"{writer}")
        for _ in range(kills):
            writer = generator.randrange(writers)
            read_until(writer, generator.randrange(1, 4))
            forks.kill(f"{writer}", after=generator.uniform(0, 0.01))
            forks.start(f"{writer}")
        for writer in range(writers):
            forks.kill(f"{writer}")
    return answered


async def _write(folder: Path, writer: int) -> None:
    client = open_databases(folder).make_client(PROJECT)
    progress = client.collection(PROGRESS).document(f"{writer}")
    snapshot = await progress.get()
    last = snapshot.get("commit") if snapshot.exists else 0
    while True:
        last += 1
        batch = client.batch()
        for number in range(DOCUMENTS):
            document = client.collection(COLLECTION).document(f"{writer}-{last}-{number}")
            vector = Vector([float(writer), float(last), float(number)])
            batch.set(document, {"commit": f"{writer}-{last}", "at": last, "vector": vector})
        batch.set(progress, {"commit": last})
        shared = {"count": Increment(1), "writers": ArrayUnion([writer])}
        batch.set(client.collection(PROGRESS).document("shared"), shared, merge=True)
        try:
            await batch.commit()
        except Aborted:
            last -= 1
            continue
        report(writer, last)


if __name__ == "__main__":
    serve(lambda name: _write(Path(sys.argv[1]), int(name)))

"""Processes that write to an embedded Firestore until they are killed.

As a program, this module reads the numbers of writers, one on a line, and forks one process for
each. It has imported everything and opened nothing, so a writer starts within milliseconds. It
prints `started WRITER PID` and, for every commit that was answered, `WRITER COMMIT`.

A commit writes `DOCUMENTS` documents that name it, moves the writer's `progress` document to it,
and increments a number that all writers share.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from google.api_core.exceptions import Aborted
from google.cloud.firestore import ArrayUnion, Increment
from google.cloud.firestore_v1.vector import Vector

from infra.build.discovery import ROOT
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions, Index

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

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


@dataclass
class Answered:
    """What writers were told.

    Attributes:
        commits: The last commit of each writer that was answered.
        kills: The number of killed writers.
    """

    commits: dict[int, int] = field(default_factory=dict)
    kills: int = 0


def kill_writers(folder: Path, *, writers: int, kills: int, generator: random.Random) -> Answered:
    """Run writers, kill one after the other at random moments, and return what was answered."""
    command = [sys.executable, "-m", "tests.support.killable_writers", str(folder)]
    answered = Answered()
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        lines = iter(process.stdout)
        pids: dict[int, int] = {}

        orders = process.stdin

        def start(writer: int) -> None:
            orders.write(f"{writer}\n")
            orders.flush()

        def read_until(writer: int, commits: int) -> None:
            """Read until a running writer was answered this many times."""
            for line in lines:
                words = line.split()
                if words[0] == "started":
                    pids[int(words[1])] = int(words[2])
                    continue
                number, commit = map(int, words)
                answered.commits[number] = max(commit, answered.commits.get(number, 0))
                if number == writer and number in pids:
                    commits -= 1
                if commits <= 0 and writer in pids:
                    return
            raise RuntimeError("The writers ended.")

        for writer in range(writers):
            start(writer)
        try:
            for _ in range(kills):
                writer = generator.randrange(writers)
                read_until(writer, generator.randrange(1, 4))
                time.sleep(generator.uniform(0, 0.01))
                os.kill(pids.pop(writer), signal.SIGKILL)
                answered.kills += 1
                start(writer)
        finally:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            orders.close()
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
        sys.stdout.write(f"{writer} {last}\n")
        sys.stdout.flush()


def _read_orders() -> Iterator[int]:
    for line in sys.stdin:
        yield int(line)


def _main(folder: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    for writer in _read_orders():
        child = os.fork()
        if not child:
            sys.stdout.write(f"started {writer} {os.getpid()}\n")
            sys.stdout.flush()
            asyncio.run(_write(folder, writer))
            os._exit(0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))

"""What was answered is stored, whatever process is killed at whatever moment.

`KILLS=100 make test-slow ARGS='-s -n0 tests/e2e/local/test_kills.py'` kills 100 times each, and
says what survived.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import apsw
import httpx2
import pytest

from infra.local.embedded_firestore.files import check_file
from tests.support.local_machine import CARREL
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.process_end import END_TIMEOUT_SECONDS

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.local_machine import Machine

pytestmark = pytest.mark.slow

KILLS: Final = int(os.environ.get("KILLS", "4"))
"""How often each kind of process is killed."""
NOTES: Final = 30
"""The files that are ingested again and again."""
BALLAST_BYTES: Final = 30_000_000
"""The size of the database that is backed up, so that a backup takes a moment."""


def report(text: str) -> None:
    """Print what a test did, which `-s` shows."""
    sys.stdout.write(f"\n{text}\n")


def require_whole_files(machine: Machine) -> None:
    """Look for damage in the databases of a machine."""
    for path in machine.files.glob("*.sqlite"):
        check_file(path)


def kill(process: subprocess.Popen[str], delay: float) -> bool:
    """Kill a process after a delay, and return whether it was still running."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    process.kill()
    return process.wait(END_TIMEOUT_SECONDS) == -signal.SIGKILL


def read_export(machine: Machine, folder: Path) -> list[dict[str, Any]]:
    """Export a base, and return the lines of its sources and passages."""
    assert machine.run("export", str(folder)).startswith("Exported ")
    return [
        json.loads(line)
        for file in sorted(folder.glob("knowledge-*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]


def save_notes(port: int, prefix: str, answered: list[str], enough: threading.Event) -> None:
    """Save notes until the gateway is gone, and keep the ids of those that were answered."""
    for number in range(1_000):
        text = f"Note {prefix}-{number} is about what survives."
        try:
            response = post(f"http://localhost:{port}/mcp", make_call("save_note", {"text": text}))
        except httpx2.TransportError:
            return
        answered.append(response.json()["result"]["structuredContent"]["source_id"])
        if len(answered) % 10 == 0:
            enough.set()


def kill_in_the_middle_of_saves(
    run: subprocess.Popen[str], port: int, prefix: str, delay: float
) -> list[str]:
    """Save notes side by side, kill the run, and return the ids of the notes that were answered."""
    answered: list[str] = []
    enough = threading.Event()
    writers = [
        threading.Thread(target=save_notes, args=(port, f"{prefix}{number}", answered, enough))
        for number in range(3)
    ]
    for writer in writers:
        writer.start()
    assert enough.wait(END_TIMEOUT_SECONDS)
    timer = threading.Timer(delay, os.kill, (run.pid, signal.SIGKILL))
    timer.start()  # the gateway's own process is killed when its parent is gone
    for writer in writers:
        writer.join(END_TIMEOUT_SECONDS)
    run.wait(END_TIMEOUT_SECONDS)
    return answered


def test_every_answered_note_survives_a_kill(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    answered: list[str] = []
    for number in range(KILLS):
        port = find_free_port()
        run, _ = machine.start_run(port=port)
        delay = kill_generator.uniform(0, 0.2)
        answered += kill_in_the_middle_of_saves(run, port, str(number), delay)
        require_whole_files(machine)
    lines = read_export(machine, tmp_path / "export")
    stored = {line["source"]["source_id"] for line in lines if "source" in line}
    assert [source_id for source_id in answered if source_id not in stored] == []
    report(f"{KILLS} kills, {len(answered)} answered notes, all stored")


def write_notes(folder: Path, edition: int) -> None:
    """Write an edition of the notes."""
    for number in range(NOTES):
        text = f"# Note {number}\n\nEdition {edition} of note {number} says something new.\n"
        (folder / f"{number}.md").write_text(text)


def test_an_import_that_was_killed_goes_on(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    """No source is missing at any moment, and the next import completes them all."""
    folder = tmp_path / "notes"
    folder.mkdir()
    write_notes(folder, 0)
    machine.run("ingest", str(folder))
    kills, edition, seconds = 0, 0, 5.0
    while kills < KILLS:
        edition += 1
        write_notes(folder, edition)
        process = machine.start([*CARREL, "ingest", str(folder)])
        assert process.stdout
        process.stdout.readline()  # the import has begun
        start = time.monotonic()
        if kill(process, kill_generator.uniform(0, seconds)):
            kills += 1
        else:
            seconds = time.monotonic() - start
        require_whole_files(machine)
        with apsw.Connection(str(machine.files / "default.sqlite")) as database:
            count = database.execute(
                "SELECT count(*) FROM documents, collections"
                " WHERE collection = id AND path = 'sources'"
            ).get
        database.close()
        assert count == NOTES
    machine.run("ingest", str(folder))

    chunks = [
        line["chunk"] for line in read_export(machine, tmp_path / "export") if "chunk" in line
    ]
    expected = {
        f"Edition {edition} of note {number} says something new." for number in range(NOTES)
    }
    assert {chunk["text"].splitlines()[-1] for chunk in chunks} == expected
    assert len(chunks) == NOTES
    report(f"{kills} kills in {edition} imports, {NOTES} notes, none missing")


@contextmanager
def count_in(path: Path) -> Iterator[None]:
    """Write to a database until the block ends."""
    is_over = threading.Event()

    def count() -> None:
        database = apsw.Connection(str(path))
        database.set_busy_timeout(60_000)
        while not is_over.is_set():
            database.execute("UPDATE meta SET value = value + 1 WHERE name = 'count'")
        database.close()

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_backup_that_was_killed_is_whole_or_none(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    machine.run("keys", "list")
    (tmp_path / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    machine.run("ingest", str(tmp_path / "tea.md"))
    knowledge = machine.files / "default.sqlite"
    database = apsw.Connection(str(knowledge))
    database.execute(
        "INSERT INTO meta VALUES ('count', 0), ('ballast', randomblob(?))", (BALLAST_BYTES,)
    )
    database.close()
    backups = tmp_path / "backups"
    backups.mkdir()
    file = backups / "backup.tar"
    copies = machine.files.parents[1] / ".backing-up" / "base" / "databases"
    kills, whole, seconds = 0, 0, END_TIMEOUT_SECONDS  # so that the first one ends by itself
    with count_in(knowledge):
        while kills < KILLS:
            former = read_change_time(copies)
            process = machine.start([*CARREL, "backup", str(file)])
            while process.poll() is None and read_change_time(copies) in {None, former}:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.001)  # until the backup has begun
            start = time.monotonic()
            delay = kill_generator.uniform(0, 1.3 * seconds) if whole else seconds
            if kill(process, delay):
                kills += 1
            else:
                seconds = time.monotonic() - start
            if file.exists():
                whole += 1
                require_restorable(machine, file, tmp_path / "other")
                file.unlink()
        machine.run("backup", str(file))
    assert [path.name for path in backups.iterdir()] == ["backup.tar"]
    require_restorable(machine, file, tmp_path / "other")
    require_whole_files(machine)
    report(f"{kills} kills, {whole} archives that were there, all restored")


def read_change_time(path: Path) -> int | None:
    """Return when a folder last changed, in nanoseconds, or None if it is missing."""
    try:
        return path.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def require_restorable(machine: Machine, file: Path, state: Path) -> None:
    """Restore a backup into a state folder of its own."""
    output = machine.run("restore", str(file), CARREL_STATE=str(state))
    assert output.startswith("Restored the base of ")
    for path in state.glob("databases/*/*.sqlite"):
        check_file(path)
    shutil.rmtree(state)

"""What was answered is stored, whatever process is killed at whatever moment.

`KILLS=100 make test-slow ARGS='-s -n0 tests/e2e/local/test_kills.py'` kills 100 times each, and
says what survived.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from infra.local.embedded_firestore.files import check_file
from tests.support.local_machine import CARREL, END_TIMEOUT_SECONDS, Machine
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.stdio_client import StdioClient

pytestmark = pytest.mark.slow

KILLS: Final = int(os.environ.get("KILLS", "4"))
"""How often each kind of process is killed."""
NOTES: Final = 30
"""The files that are ingested again and again."""
BALLAST_BYTES: Final = 30_000_000
"""The size of the database that is backed up, so that a backup takes a moment."""
LAST_CHANGE: Final = "max(updated)"
"""When a document was last written, in microseconds."""
VICTIMS: Final = ("gateway", "stdio", "import")
"""Which of several processes is killed, in turn."""


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
    return read_lines(folder)


def read_lines(export: Path) -> list[dict[str, Any]]:
    """Return the lines of the sources and passages of an export."""
    return [
        json.loads(line)
        for file in sorted(export.glob("knowledge-*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]


def write_notes(folder: Path, edition: int) -> None:
    """Write an edition of the notes."""
    for number in range(NOTES):
        text = f"# Note {number}\n\nEdition {edition} of note {number} says something new.\n"
        (folder / f"{number}.md").write_text(text)


def add_ballast(machine: Machine) -> None:
    """Make a database so large that its backup takes a moment, and give it a counter."""
    database = apsw.Connection(str(machine.files / "default.sqlite"))
    database.execute(
        "INSERT INTO meta VALUES ('count', 0), ('ballast', randomblob(?))", (BALLAST_BYTES,)
    )
    database.close()


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
    add_ballast(machine)
    knowledge = machine.files / "default.sqlite"
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


def start_restore(machine: Machine, file: Path) -> subprocess.Popen[str]:
    """Start to replace a base by a backup, and return when it is being unpacked."""
    process = machine.start([*CARREL, "restore", "--replace", str(file)])
    while process.poll() is None and not (machine.state / ".restoring").exists():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
    return process


def back_up_tea(machine: Machine, folder: Path) -> Path:
    """Write a base with a text about tea and some ballast, and return its backup."""
    (folder / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees.\n")
    machine.run("ingest", str(folder / "tea.md"))
    add_ballast(machine)
    machine.run("backup", str(folder / "backup.tar"))
    return folder / "backup.tar"


def test_nothing_else_runs_while_a_base_is_restored(machine: Machine, tmp_path: Path) -> None:
    file = back_up_tea(machine, tmp_path)
    restore = start_restore(machine, file)
    restore.send_signal(signal.SIGSTOP)
    for command in (["restore", "--replace", str(file)], ["keys", "list"], ["up"]):
        assert f"A backup is being restored to {machine.state}. Try" in machine.fail(*command)
    restore.send_signal(signal.SIGCONT)
    assert "The former base is in" in restore.communicate(timeout=END_TIMEOUT_SECONDS)[0]

    run, _ = machine.start_run()
    assert "Carrel runs on the data" in machine.fail("restore", "--replace", str(file))
    assert run.poll() is None
    assert len(list(machine.state.glob("replaced-*"))) == 1
    require_whole_files(machine)


def test_a_restore_that_was_killed_is_whole_or_none(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    file = back_up_tea(machine, tmp_path)
    (tmp_path / "coffee.md").write_text("# Coffee\n\nGrind the beans just before brewing.\n")
    kills, restored, seconds = 0, 0, 0.6
    while kills < KILLS:
        machine.run("ingest", str(tmp_path / "coffee.md"))
        process = start_restore(machine, file)
        start = time.monotonic()
        if kill(process, kill_generator.uniform(0, seconds)):
            kills += 1
        else:
            seconds = time.monotonic() - start
        lines = read_export(machine, tmp_path / f"export-{kills}-{restored}")
        titles = {line["source"]["title"] for line in lines if "source" in line}
        assert titles in ({"Tea"}, {"Tea", "Coffee"})
        restored += titles == {"Tea"}
        require_whole_files(machine)
        assert not list(machine.state.glob("restored-*"))
    report(f"{kills} kills, {restored} restored")


def query_documents(machine: Machine, expression: str, collection: str) -> int:
    """Return an SQL expression over the documents of a collection."""
    with apsw.Connection(str(machine.files / "default.sqlite")) as database:
        value = database.execute(
            f"SELECT {expression} FROM documents, collections"  # noqa: S608 - of this file
            " WHERE collection = id AND path = ?",
            (collection,),
        ).get
    database.close()
    return value or 0


def read_passages(export: Path) -> list[str]:
    """Return the texts of the passages of imported notes, from an export."""
    chunks = [line["chunk"] for line in read_lines(export) if "chunk" in line]
    return sorted(chunk["text"] for chunk in chunks if "Edition" in chunk["text"])


def start_import(machine: Machine, folder: Path) -> subprocess.Popen[str]:
    """Start to import notes, and return when it has written a passage."""
    before = query_documents(machine, LAST_CHANGE, "chunks")
    process = machine.start([*CARREL, "ingest", str(folder)])
    while process.poll() is None and query_documents(machine, LAST_CHANGE, "chunks") == before:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
    return process


def test_one_of_several_processes_is_killed_and_the_others_go_on(
    machine: Machine, kill_generator: random.Random, tmp_path: Path
) -> None:
    """A gateway, the server of a client and an import work on one base at once."""
    folder, port = tmp_path / "notes", find_free_port()
    folder.mkdir()
    kills, edition, answered = Counter[str](), 0, []
    run, client = None, None
    while kills.total() < max(KILLS, len(VICTIMS)):
        run = run or machine.start_run(port=port)[0]
        client = client or StdioClient(machine)
        edition += 1
        write_notes(folder, edition)
        importing = start_import(machine, folder)
        victim = VICTIMS[kills.total() % len(VICTIMS)]
        process = {"gateway": run, "stdio": client.process, "import": importing}[victim]
        kills[victim] += kill(process, kill_generator.uniform(0, 0.5))
        note = {"text": f"A note of round {edition} is about what survives."}
        if victim == "gateway":
            run = None
        else:
            response = post(f"http://localhost:{port}/mcp", make_call("save_note", note))
            answered.append(response.json()["result"]["structuredContent"]["source_id"])
        if victim == "stdio":
            client = None
        else:
            answered.append(client.call("save_note", note)["source_id"])
        importing.communicate(timeout=END_TIMEOUT_SECONDS)
        if victim == "import":
            assert query_documents(machine, "count(*)", "sources") >= NOTES  # none is missing
            machine.run("ingest", str(folder))
        assert importing.returncode in ({0, -signal.SIGKILL} if victim == "import" else {0})
        require_whole_files(machine)
    lines = read_export(machine, tmp_path / "export")
    stored = {line["source"]["source_id"] for line in lines if "source" in line}
    assert [source_id for source_id in answered if source_id not in stored] == []

    other = {"CARREL_STATE": str(tmp_path / "undisturbed")}
    machine.run("ingest", str(folder), **other)
    machine.run("export", str(tmp_path / "undisturbed-export"), **other)
    assert read_passages(tmp_path / "export") == read_passages(tmp_path / "undisturbed-export")
    report(f"{dict(kills)} kills, {len(answered)} answered notes, all stored")

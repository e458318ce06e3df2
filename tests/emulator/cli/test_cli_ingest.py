"""`carrel ingest` reads files and folders, reports what it did, and can be interrupted.

It runs in a process of its own, in which Ctrl-C can be sent after a commit. The exit code is 1 if a
text was left out or a job failed, and 130 after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from functions.jobs.ingest.readers.kindle import notebook
from functions.jobs.ingest.readers.readwise import export
from infra.build.discovery import ROOT
from infra.cli.ingest_preview import MAX_WARNINGS, format_duration
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.source_files import format_json_lines, write_file
from tests.support.stored_documents import read_documents

PROGRAM = """
import os, signal, sys
from infra.cli.main import main
from infra.local import jobs
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.fakes.embedder import WordEmbedder

embedder = WordEmbedder()
embedder.is_down = "down" in sys.argv
if embedder.is_down:
    sys.argv.remove("down")

async def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
hook = call_after_commit(int(sys.argv.pop(1)), interrupt)
setattr(jobs, "App", lambda settings: WatchedApp(settings, hook, embedder=embedder))
main()
"""
"""A program that runs the command.

Its first argument is the number of commits after which it receives Ctrl-C. With the argument
`down`, the embedding model is down.
"""
NEVER = -1
"""The number of commits for a run that is not interrupted."""
NOTES = 80
"""A number of notes that takes more than four commits."""
TIMEOUT_SECONDS = 120
"""A run that takes this long hangs, even on a busy machine."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, project: str) -> None:
    """Use an empty database."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)


class CommandResult(NamedTuple):
    """The exit code of a command, and what it prints."""

    code: int
    output: str
    errors: str


def run_ingest(
    path: Path,
    *options: str,
    interrupted_after: int = NEVER,
    embedder_is_down: bool = False,
) -> CommandResult:
    """Run the command, and receive Ctrl-C after some commits."""
    down = ["down"] if embedder_is_down else []
    commits = str(interrupted_after)
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, commits, "ingest", str(path), *options, *down],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


def read_stored_ids(collection: str) -> set[str]:
    """Return the ids of the documents of a collection."""

    async def read() -> set[str]:
        app = App(Settings())
        try:
            return set(await read_documents(app.context(Caller(), Meter()), collection))
        finally:
            await app.aclose()

    return asyncio.run(read())


def test_warnings_and_unsupported_files_exit_with_0(tmp_path: Path) -> None:
    write_file(tmp_path, "note.md", "---\ndate: soon\n---\nReef the mainsail early.")
    write_file(tmp_path, "paper.docx", "PK")
    code, output, errors = run_ingest(tmp_path)
    assert code == 0, errors
    assert "\ningest: Not read: 1 .docx.\n" in output.partition("\nindex: ")[2]
    assert "ingest: warning: note.md: line 2: date: “soon” is not an ISO 8601 date" in errors


def test_files_left_out_are_listed_and_exit_with_1(tmp_path: Path) -> None:
    write_file(tmp_path, "vault/note.md", "Reef the mainsail early.")
    (tmp_path / "vault/passwords.md").symlink_to(write_file(tmp_path, "passwords.md", "secret"))
    code, output, errors = run_ingest(tmp_path / "vault")
    assert code == 1
    assert "ingest: 1 created, 1 sources, 1 read (" in output
    assert "ingest: left out: passwords.md: is a link to a target outside the folder" in errors


def test_words_are_indexed_when_the_embedder_is_down(tmp_path: Path) -> None:
    write_file(tmp_path, "note.md", "Reef the mainsail early.")
    code, output, errors = run_ingest(tmp_path, embedder_is_down=True)
    assert code == 1
    assert "The embedding provider does not answer." in errors
    assert "Traceback" not in errors
    assert "\nindex: 1 indexed (" in output


def test_a_path_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    code, output, errors = run_ingest(tmp_path / "absent")
    assert code == 1
    assert errors.count("Error") == 1
    assert "absent" in errors
    assert "index: " not in output


def test_forgetting_many_missing_files_must_be_confirmed(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for number in range(6):
        write_file(vault, f"{number}.md", f"Note {number}.")
    assert run_ingest(vault).code == 0

    # A dry run shows what has changed.
    (vault / "0.md").rename(vault / "renamed.md")
    (vault / "1.md").unlink()
    write_file(vault, "2.md", "Note 2, edited.")
    write_file(vault, "new.md", "New.")
    code, output, _ = run_ingest(vault, "--dry-run")
    assert code == 0
    assert output.startswith(
        "new: 1 file\n  new.md\nedited: 1 file\n  2.md\nrenamed: 1 file\n  0.md -> renamed.md\n"
        "missing: 1 file\n  1.md\n"
        "1 of 6 files disappeared: 1 source (1 passage) will be forgotten.\n"
        "FORMAT            FILES  SOURCES  PASSAGES\n"
        "Markdown or text  2      2        2\n"
    )
    assert len(read_stored_ids("sources")) == 6

    # One missing file of six is forgotten without a question.
    code, output, errors = run_ingest(vault)
    assert code == 0, errors
    assert output.startswith("1 renamed or moved file: the ids stay.\n1 of 6 files disappeared: ")
    assert len(read_stored_ids("sources")) == 6

    # Three of six are not.
    for name in ("2.md", "3.md", "4.md"):
        (vault / name).unlink()
    code, output, errors = run_ingest(vault)
    assert code == 1
    assert output.startswith("3 of 6 files disappeared: 3 sources (3 passages) will be forgotten.")
    assert errors.startswith("Nothing is forgotten. To forget these texts, run the command again")
    assert run_ingest(vault, "--keep-missing").code == 0
    assert len(read_stored_ids("sources")) == 6
    assert run_ingest(vault, "--yes").code == 0
    assert len(read_stored_ids("sources")) == 3
    _, folder = run_ingest(vault, "--list").output.splitlines()
    sources, passages = folder.split()[1:3]
    assert sources == passages == "3"

    # A missing folder must be confirmed, too.
    shutil.rmtree(vault)
    code, _, errors = run_ingest(vault)
    assert code == 1
    assert "Error: " in errors
    assert run_ingest(vault, "--yes").code == 0
    assert read_stored_ids("sources") == set()


def test_a_dry_run_shows_contents_and_problems(tmp_path: Path) -> None:
    write_file(tmp_path, "vault/note.md", "---\ndate: soon\n---\nReef the mainsail early.")
    records = format_json_lines({"id": "1", "text": "Heave to."}, {"id": "2"})
    write_file(tmp_path, "vault/log.jsonl", records)
    write_file(tmp_path, "vault/paper.docx", "PK")
    code, output, errors = run_ingest(tmp_path / "vault", "--dry-run")
    assert code == 1
    assert output.endswith(
        "FORMAT            FILES  SOURCES  PASSAGES\n"
        "JSON Lines        1      1        1\n"
        "Markdown or text  1      1        1\n"
        "Not read: 1 .docx.\n"
        "This takes less than 10 seconds on this computer.\n"
    )
    assert "left out: log.jsonl line 2: has no text\n" in errors
    assert "warning: note.md: line 2: date: “soon” is not" in errors
    assert read_stored_ids("sources") == set()


def test_a_dry_run_shows_formats_and_duplicate_records(
    tmp_path: Path,
) -> None:
    write_file(tmp_path, "exports/Sails - Notebook.html", notebook.FORMAT.example)
    book = export.FORMAT.example
    write_file(tmp_path, "exports/readwise 1.json", book)
    write_file(tmp_path, "exports/readwise 2.json", book)
    for number in (1, 2):  # records with one id, which unlike a book's highlights are not merged
        record = format_json_lines({"id": "7", "text": "Heave to."})
        write_file(tmp_path, f"exports/data {number}.jsonl", record)
    for number in range(MAX_WARNINGS):
        write_file(tmp_path, f"exports/note {number}.md", "---\ndate: soon\n---\nReef early.")
    code, output, errors = run_ingest(tmp_path / "exports", "--dry-run")
    assert code == 1
    assert "\nKindle notebook   1      1        1\n" in output
    assert "\nReadwise export   2      1        2\n" in output  # the files have the same book
    assert errors.startswith(
        "left out: data 2.jsonl line 1: has the id of data 1.jsonl line 1; keep one of the two\n"
        "warning: note 0.md: "
    )


def test_every_file_that_is_left_out_is_named(tmp_path: Path) -> None:
    names = [f"note {number:02}.md" for number in range(30)]
    for name in names:
        write_file(tmp_path, f"notes/{name}", "")
    write_file(tmp_path, "notes/reef.md", "Reef early.")
    for options in (["--dry-run"], []):
        code, _, errors = run_ingest(tmp_path / "notes", *options)
        assert code == 1
        assert all(f"left out: {name}: has no text\n" in errors for name in names)


def test_strict_writes_nothing_if_a_record_is_invalid(tmp_path: Path) -> None:
    path = write_file(
        tmp_path, "log.jsonl", format_json_lines({"id": "1", "text": "Reef."}, {"id": "2"})
    )
    code, output, errors = run_ingest(path, "--strict")
    assert code == 1
    assert output == ""
    assert errors == (
        "left out: log.jsonl line 2: has no text\n"
        "Nothing is written, because of --strict. Without it, all other texts are added.\n"
    )
    assert read_stored_ids("sources") == set()

    assert run_ingest(path).code == 1
    assert len(read_stored_ids("sources")) == 1


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [
        (3.0, "less than 10 seconds"),
        (44.0, "about 40 seconds"),
        (95.0, "about 2 minutes"),
        (7200.0, "about 120 minutes"),
    ],
)
def test_durations_are_rounded(seconds: float, duration: str) -> None:
    assert format_duration(seconds) == duration


@pytest.mark.slow
def test_an_interrupted_ingest_can_be_resumed(tmp_path: Path) -> None:
    notes = [{"id": str(number), "text": f"Note {number}."} for number in range(NOTES)]
    path = write_file(tmp_path, "notes.jsonl", format_json_lines(*notes))
    code, _, errors = run_ingest(path, interrupted_after=4)
    assert code == 130
    assert 0 < len(read_stored_ids("sources")) < NOTES
    assert (
        "Interrupted. Stored results are kept. To continue, run the same command again.\n" in errors
    )
    assert "Traceback" not in errors

    code, output, errors = run_ingest(path)
    assert code == 0, errors
    assert f"{NOTES} read" in output
    assert len(read_stored_ids("sources")) == NOTES

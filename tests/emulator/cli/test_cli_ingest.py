"""`carrel ingest` reads files and folders, reports what it did, and can be interrupted.

The exit code is 1 if a text was left out or a job failed, and 130 after Ctrl-C.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.jobs.ingest.readers.kindle import notebook
from functions.jobs.ingest.readers.readwise import export
from infra.build.discovery import ROOT
from infra.cli.ingest_preview import format_duration
from infra.doctor import CHECKS, Machine, run_check
from infra.local import jobs
from tests.support.commands import read_stored, run_carrel
from tests.support.fakes.embedder import WordEmbedder
from tests.support.links import ESSAY, SITE_URL, make_link_fetcher, make_text_page, serve_site
from tests.support.source_files import format_json_lines, write_file

INTERRUPTED = """
import os, signal, sys
from functools import partial
from infra.cli.main import main
from infra.local import jobs
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.fakes.embedder import WordEmbedder

async def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
hook = call_after_commit(4, interrupt)
jobs.App = partial(WatchedApp, hook=hook, embedder=WordEmbedder())
main()
"""
"""A program that runs the command, and receives Ctrl-C after four commits."""
NOTES = 80
"""A number of notes that takes more than four commits."""


def run_ingest(path: Path | str, *options: str) -> tuple[int, str, str]:
    """Run the command; return its exit code, its output and its errors."""
    result = run_carrel("ingest", str(path), *options)
    return result.exit_code, result.stdout, result.stderr


def test_only_what_is_left_out_exits_with_1(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write_file(vault, "note.md", "---\ndate: soon\n---\nReef the mainsail early.")
    write_file(vault, "paper.pptx", "PK")
    code, output, errors = run_ingest(vault)
    assert code == 0, errors
    assert "\ningest: Not read: 1 .pptx.\n" in output.partition("\nindex: ")[2]
    assert "ingest: warning: note.md: line 2: date: “soon” is not an ISO 8601 date" in errors

    write_file(vault, "more.md", "Heave to.")
    (vault / "passwords.md").symlink_to(write_file(tmp_path, "passwords.md", "secret"))
    names = [f"note {number:02}.md" for number in range(30)]
    for name in names:
        write_file(vault, name, "")
    for options in (["--dry-run"], []):
        code, output, errors = run_ingest(vault, *options)
        assert code == 1
        assert "left out: passwords.md: is a link to a target outside the folder" in errors
        assert all(f"left out: {name}: has no text\n" in errors for name in names)
    assert "ingest: 1 created, " in output

    code, output, errors = run_ingest(tmp_path / "absent")
    assert (code, errors.count("Error"), "index: " in output) == (1, 1, False)
    assert "absent" in errors


def test_words_are_indexed_when_the_embedder_is_down(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    embedder.is_down = True
    write_file(tmp_path, "note.md", "Reef the mainsail early.")
    code, output, errors = run_ingest(tmp_path)
    assert code == 1
    assert "The embedding provider does not answer." in errors
    assert "Traceback" not in errors
    assert "\nindex: 1 indexed (" in output


def test_forgetting_many_missing_files_must_be_confirmed(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for number in range(6):
        write_file(vault, f"{number}.md", f"Note {number}.")
    assert run_ingest(vault)[0] == 0

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
    assert len(read_stored("sources")) == 6

    # One missing file of six is forgotten without a question.
    code, output, errors = run_ingest(vault)
    assert code == 0, errors
    assert output.startswith("1 renamed or moved file: the ids stay.\n1 of 6 files disappeared: ")
    assert len(read_stored("sources")) == 6

    # Three of six are not.
    for name in ("2.md", "3.md", "4.md"):
        (vault / name).unlink()
    code, output, errors = run_ingest(vault)
    assert code == 1
    assert output.startswith("3 of 6 files disappeared: 3 sources (3 passages) will be forgotten.")
    assert errors.startswith("Nothing is forgotten. To forget these texts, run the command again")
    assert run_ingest(vault, "--keep-missing")[0] == 0
    assert len(read_stored("sources")) == 6
    assert run_ingest(vault, "--yes")[0] == 0
    assert len(read_stored("sources")) == 3
    _, folder = run_ingest(vault, "--list")[1].splitlines()
    sources, passages = folder.split()[1:3]
    assert sources == passages == "3"

    # A missing folder must be confirmed, too.
    shutil.rmtree(vault)
    code, _, errors = run_ingest(vault)
    assert code == 1
    assert "Error: " in errors
    assert run_ingest(vault, "--yes")[0] == 0
    assert read_stored("sources") == {}


def test_a_dry_run_shows_contents_and_problems(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Records with one id are duplicates. A book's highlights in two files are merged."""
    record = format_json_lines({"id": "7", "text": "Heave to."})
    for name, content in {
        "Sails - Notebook.html": notebook.FORMAT.example,
        "readwise 1.json": export.FORMAT.example,
        "readwise 2.json": export.FORMAT.example,
        "data 1.jsonl": record,
        "data 2.jsonl": record + format_json_lines({"id": "2"}),
        "paper.pptx": "PK",
        **{
            f"note {number:02}.md": "---\ndate: soon\n---\nReef early."
            for number in range(jobs.MAX_PRINTED_WARNINGS + 1)
        },
    }.items():
        write_file(tmp_path, f"exports/{name}", content)
    code, output, errors = run_ingest(tmp_path / "exports", "--dry-run")
    assert code == 1
    assert output + errors == snapshot
    assert read_stored("sources") == {}


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
    assert read_stored("sources") == {}

    assert run_ingest(path)[0] == 1
    assert len(read_stored("sources")) == 1


@pytest.mark.parametrize(
    ("seconds", "duration"),
    [
        (9.9, "less than 10 seconds"),
        (10.0, "about 10 seconds"),
        (89.0, "about 90 seconds"),
        (95.0, "about 2 minutes"),
        (7200.0, "about 120 minutes"),
    ],
)
def test_durations_are_rounded(seconds: float, duration: str) -> None:
    assert format_duration(seconds) == duration


def test_a_page_is_added_and_a_missing_one_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_site(essay=make_text_page(ESSAY)) as site:
        fetch = make_link_fetcher(site)
        monkeypatch.setattr(jobs, "ingest_page", partial(jobs.ingest_page, fetch=fetch))
        code, output, errors = run_ingest(f"{SITE_URL}/essay")
        assert (code, errors) == (0, "")
        [line] = [line for line in output.splitlines() if line.startswith("ingest: ")]
        assert {"1 created", "1 sources"} <= set(line[8:].partition(" (")[0].split(", "))
        code, _, errors = run_ingest(f"{SITE_URL}/missing")
        assert code == 1
        reason = "cannot be fetched: its server answers 404"
        assert f"left out: {SITE_URL}/missing: {reason}" in errors
        requests = len(site.requests)
        code, _, errors = run_ingest(f"http://127.0.0.1:{site.server_port}/essay")
        assert code == 1
        assert "is not the address of a public web page" in errors
        code, _, errors = run_ingest(f"{SITE_URL}/essay", "--yes")
        assert code == 2
        assert "With a URL, no option is allowed." in errors
        assert len(site.requests) == requests
    [source] = read_stored("sources").values()
    assert (source["title"], source["url"]) == ("On Reefing", f"{SITE_URL}/essay")


@pytest.mark.slow
def test_an_interrupted_ingest_can_be_resumed(tmp_path: Path) -> None:
    notes = [{"id": str(number), "text": f"Note {number}."} for number in range(NOTES)]
    path = write_file(tmp_path, "notes.jsonl", format_json_lines(*notes))
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "ingest", str(path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 130
    assert 0 < len(read_stored("sources")) < NOTES
    message = "Interrupted. Stored results are kept. To continue, run the same command again.\n"
    assert message in process.stderr
    assert "Traceback" not in process.stderr

    code, output, errors = run_ingest(path)
    assert code == 0, errors
    assert f"{NOTES} read" in output
    assert len(read_stored("sources")) == NOTES


def test_a_folder_is_followed_until_it_is_read_with_no_watch(tmp_path: Path) -> None:
    """A file is not followed, and neither is a folder that is gone when that is given up."""
    vault = tmp_path / "vault"
    write_file(vault, "note.md", "Reef the mainsail early.")
    single = write_file(tmp_path, "single.md", "Heave to.")
    assert "is followed" not in run_ingest(single)[1]
    code, output, _ = run_ingest(vault)
    assert code == 0
    assert output.splitlines()[-1] == (
        "The folder is followed: while Carrel runs, changes in it are read automatically. To stop"
        f" that: .venv/bin/carrel ingest --no-watch {vault}"
    )
    assert "is followed" not in run_ingest(vault)[1]
    assert list_followed() == {str(tmp_path): "on command", str(vault): "when it changes"}

    for _ in range(2):
        assert run_ingest(vault, "--no-watch")[0] == 0
        assert list_followed()[str(vault)] == "on command"
    assert "is followed" in run_ingest(vault)[1]
    shutil.rmtree(vault)
    assert run_ingest(vault, "--no-watch") == (
        0,
        f"{vault} is no longer read when it changes.\n",
        "",
    )
    assert len(read_stored("sources")) == 2


def list_followed() -> dict[str, str]:
    """Return when each followed folder is read."""
    _, *rows = run_carrel("ingest", "--list").stdout.splitlines()
    return {path: when for path, *_, when in (re.split(r"  +", row) for row in rows)}


def test_what_failed_is_listed_and_a_concern_of_the_doctor(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write_file(vault, "note.md", "Reef the mainsail early.")
    [check] = [check for check in CHECKS if check.name == "folders"]
    assert run_check(check, Machine()).message == "follows 0 folders"
    assert run_ingest(vault)[0] == 0
    assert run_check(check, Machine()).message == "follows 1 folder"

    write_file(vault, "scan.pdf", "%PDF-1.7 no more")
    assert run_ingest(vault)[0] == 1
    problem = f"{vault}: scan.pdf: is damaged"
    assert run_carrel("ingest", "--list").stdout.splitlines()[-1].startswith(problem)
    result = run_check(check, Machine())
    assert result.message.startswith(problem)
    assert result.next_command == ".venv/bin/carrel ingest --list"

    (vault / "scan.pdf").unlink()
    assert run_ingest(vault)[0] == 0
    vault.rename(tmp_path / "elsewhere")
    problem = f"{vault}: cannot be opened, as if its disk were missing"
    assert run_carrel("ingest", "--list").stdout.splitlines()[-1].startswith(problem)
    assert run_check(check, Machine()).message.startswith(problem)

"""`carrel ingest`: what it says, how it ends, and that it goes on where it was interrupted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.source_files import lines, written
from tests.support.stored_documents import documents

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, signal, sys
from infra.cli.main import main
from infra.local import jobs
from tests.support.commit_hooks import WatchedApp, after
from tests.support.fakes.embedder import WordEmbedder

async def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
around = after(int(sys.argv.pop(1)), interrupt)
jobs.App = lambda settings: WatchedApp(settings, around, embedder=WordEmbedder())
main()
"""
"""Gets a Ctrl-C after the commit of this number."""
NEVER = -1
NOTES = 80
"""More than four commits write."""
HANGING = 120
"""Seconds after which a run hangs, on however busy a machine."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, project: str) -> None:
    """A database of one's own."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)


def ingested(path: Path, interrupted: int = NEVER) -> tuple[int, str, str]:
    """The exit code of a run, and what it says on both channels."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(interrupted), "ingest", str(path)],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=HANGING,
        check=False,
    )
    return process.returncode, process.stdout, process.stderr


def stored(collection: str) -> set[str]:
    """The ids of the documents of a collection."""

    async def ask() -> set[str]:
        app = App(Settings())
        try:
            return set(await documents(app.context(Caller(), Meter()), collection))
        finally:
            await app.aclose()

    return asyncio.run(ask())


def test_warnings_and_files_of_other_kinds_end_with_0(tmp_path: Path) -> None:
    written(tmp_path, "note.md", "---\ndate: soon\n---\nReef the mainsail early.")
    written(tmp_path, "paper.pdf", "%PDF")
    code, said, errors = ingested(tmp_path)
    assert 0 == code, errors
    assert "\ningest: Not read: 1 .pdf.\n" in said.partition("\nindex: ")[2]
    assert "ingest: warning: note.md: line 2: date: “soon” is not an ISO 8601 date" in errors


def test_what_is_refused_is_listed_and_ends_with_1(tmp_path: Path) -> None:
    written(tmp_path, "vault/note.md", "Reef the mainsail early.")
    (tmp_path / "vault/passwords.md").symlink_to(written(tmp_path, "passwords.md", "secret"))
    code, said, errors = ingested(tmp_path / "vault")
    assert 1 == code
    assert "ingest: 1 created, 1 sources, 1 read (" in said
    assert "ingest: left out: passwords.md: is a link to something outside the folder" in errors


@pytest.mark.slow
def test_an_interrupted_ingest_says_how_to_go_on(tmp_path: Path) -> None:
    many = [{"id": str(number), "text": f"Note {number}."} for number in range(NOTES)]
    path = written(tmp_path, "notes.jsonl", lines(*many))
    code, _, errors = ingested(path, interrupted=4)
    assert 130 == code
    assert 0 < len(stored("sources")) < NOTES
    assert "Stopped. What was stored stays: run the same command again to go on.\n" in errors
    assert "Traceback" not in errors
    code, said, errors = ingested(path)
    assert 0 == code, errors
    assert f"{NOTES} read" in said
    assert len(stored("sources")) == NOTES

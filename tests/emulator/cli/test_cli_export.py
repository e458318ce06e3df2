"""`carrel export` writes the sources, and the traces and to-dos of a user, to a folder.

A trace is a solved coding problem that a user shares.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from infra.build.discovery import ROOT
from infra.cli.main import main
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Source
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import BAKING, SAILING, chunk_source
from tests.support.tool_calls import call_result
from tests.support.traces import contribute, make_sample_trace

KILLED_EXPORT = """
import os, signal
from infra.cli.main import main
from shared.knowledge.chunk_repository import Chunks

load_of_source = Chunks.load_of_source

async def kill_at_the_second(self, source_id, *more):
    if source_id == "sailing":
        os.kill(os.getpid(), signal.SIGKILL)
    return await load_of_source(self, source_id, *more)

Chunks.load_of_source = kill_at_the_second
main()
"""
"""A program that runs the command, and is killed before it exports the second source."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, project: str) -> None:
    """Use an empty database."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)


def fill_base(*sources: Source, user: str | None = None) -> None:
    """Store sources, and a trace and a to-do of a user and of another one, `not-` the first."""

    async def store() -> None:
        app = App(Settings(), embedder=WordEmbedder())
        try:
            ctx = app.context(Caller(), Meter())
            chunked = [chunk_source(source) for source in sources]
            await Ingestion(ctx.database).save(chunked, ctx.clock())
            for number, owner in enumerate([user, f"not-{user}"] if user else []):
                await contribute(app, number, owner)
                await call_result(app, "add_task", owner, title=f"Mend the sail of {owner}")
        finally:
            await app.aclose()

    asyncio.run(store())


def export(folder: Path, *options: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, ["export", str(folder), *options])


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_an_export_contains_sources_and_the_users_traces_and_to_dos(tmp_path: Path) -> None:
    fill_base(BAKING, SAILING, user="local")
    result = export(tmp_path / "export")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        f"Exported 2 sources with 5 passages, 1 trace and 1 to-do to {tmp_path / 'export'}.\n"
    )

    [trace] = read_lines(tmp_path / "export/traces.jsonl")
    assert trace["solution_text"] == make_sample_trace(0)["solution_text"]
    assert trace["contributor"] == "local"
    [task] = read_lines(tmp_path / "export/tasks.jsonl")
    assert task["title"] == "Mend the sail of local"
    assert json.loads((tmp_path / "export/carrel-export.json").read_text()) == {
        "format": 1, "sources": 2, "passages": 5, "traces": 1, "tasks": 1
    }  # fmt: skip


def test_an_option_exports_traces_and_to_dos_of_another_user(tmp_path: Path) -> None:
    fill_base(user="ann")
    assert export(tmp_path / "export", "--user", "not-ann").exit_code == 0
    [task] = read_lines(tmp_path / "export/tasks.jsonl")
    assert task["title"] == "Mend the sail of not-ann"


def test_the_markdown_is_a_bundle_of_the_open_knowledge_format(tmp_path: Path) -> None:
    """Section 11 of the specification: every concept has front matter with a type."""
    fill_base(BAKING, SAILING)
    assert export(tmp_path / "export").exit_code == 0
    bundle = tmp_path / "export/markdown"
    concepts = [path for path in bundle.rglob("*.md") if path.name not in {"index.md", "log.md"}]
    assert len(concepts) == 2
    for path in concepts:
        _, block, _ = path.read_text("utf-8").split("---\n", 2)
        assert yaml.safe_load(block)["type"]
        assert f"](sources/{path.name}) - " in (bundle / "index.md").read_text("utf-8")
    _, block, index = (bundle / "index.md").read_text("utf-8").split("---\n", 2)
    assert yaml.safe_load(block) == {"okf_version": "0.2"}
    assert index.startswith("\n# Sources\n\n* [")


def test_an_empty_base_gives_an_empty_export(tmp_path: Path) -> None:
    result = export(tmp_path / "export")
    assert result.exit_code == 0
    assert "Exported 0 sources with 0 passages" in result.stdout


def test_a_folder_with_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "note.md").touch()
    result = export(tmp_path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "contains files and is not a Carrel export" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["note.md"]


def test_a_folder_that_cannot_be_created_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "note.md").touch()
    result = export(tmp_path / "note.md/export")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"Error: {tmp_path / 'note.md'} is not a folder.\n"

    result = export(tmp_path / ("x" * 300))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.endswith(": File name too long.\n")


def test_a_killed_export_leaves_the_earlier_one(tmp_path: Path) -> None:
    fill_base(BAKING)
    assert export(tmp_path / "export").exit_code == 0
    fill_base(SAILING)
    command = [sys.executable, "-c", KILLED_EXPORT, "export", str(tmp_path / "export")]
    process = subprocess.run(command, cwd=ROOT, env=os.environ, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL
    assert json.loads((tmp_path / "export/carrel-export.json").read_text())["sources"] == 1

    assert export(tmp_path / "export").exit_code == 0
    assert json.loads((tmp_path / "export/carrel-export.json").read_text())["sources"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["export"]

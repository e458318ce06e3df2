"""`carrel export` writes the sources, and the traces and to-dos of a user, to a folder.

A trace is a solved coding problem that a user shares.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from infra.build.discovery import ROOT
from shared.knowledge.source import Source
from shared.runtime.context import App
from shared.writer.ingestion import Ingestion
from tests.support.commands import expect_error, run_carrel, run_with_app
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_job_context
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


def fill_base(*sources: Source, user: str | None = None) -> None:
    """Store sources, and a trace and a to-do of a user and of another one, `not-` the first."""

    async def store(app: App) -> None:
        ctx = make_job_context(app)
        chunked = [chunk_source(source) for source in sources]
        await Ingestion(ctx.database).save(chunked, ctx.clock())
        for number, owner in enumerate([user, f"not-{user}"] if user else []):
            await contribute(app, number, owner)
            await call_result(app, "add_task", owner, title=f"Mend the sail of {owner}")

    run_with_app(store, embedder=WordEmbedder())


def export(folder: Path, *options: str) -> Result:
    """Run the command."""
    return run_carrel("export", str(folder), *options)


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
        "format": 1, "sources": 2, "passages": 5, "traces": 1, "tasks": 1,
        "reviews": 0, "incomplete": []
    }  # fmt: skip

    assert export(tmp_path / "other", "--user", "not-local").exit_code == 0
    [task] = read_lines(tmp_path / "other/tasks.jsonl")
    assert task["title"] == "Mend the sail of not-local"


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


def test_a_folder_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "note.md").touch()
    error = expect_error("export", str(tmp_path))
    assert "contains files and is not a Carrel export" in error
    assert [path.name for path in tmp_path.iterdir()] == ["note.md"]
    error = expect_error("export", str(tmp_path / "note.md/export"))
    assert error == f"Error: {tmp_path / 'note.md'} is not a folder.\n"
    error = expect_error("export", str(tmp_path / ("x" * 300)))
    assert error.endswith(": File name too long.\n")

    result = export(tmp_path / "empty")
    assert result.exit_code == 0
    assert "Exported 0 sources with 0 passages" in result.stdout


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

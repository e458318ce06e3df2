"""`carrel forget` forgets sources by id, folder or tag, and the sample, and restores them."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from functions.jobs.ingest.folder import set_watched
from functions.jobs.ingest.job import ingest
from infra.local.local_database import SAMPLE
from infra.local.sample.traces import share_traces
from shared.knowledge.followed_folders import load_folders
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.traces.corpus import build_index_entry
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces
from tests.support.commands import expect_error, read_stored, run_carrel, run_in_database
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.source_files import make_readwise_book, write_export, write_file
from tests.support.stored_documents import read_chunks_by_text

OTHER_TRACE = "other-1"
"""The id of a trace that is not in the sample."""


def forget(*arguments: str, answer: str | None = None) -> Result:
    """Run the command, and answer its question."""
    return run_carrel("forget", *arguments, answer=answer)


def store(*sources: Source) -> None:
    """Store sources."""
    run_in_database(lambda ctx: store_sources(ctx, *sources))


def ingest_path(path: Path) -> None:
    """Ingest a file or a folder."""
    run_in_database(lambda ctx: ingest(ctx, make_ample_budget()), ingest_path=str(path))


def test_a_source_is_forgotten_and_restored() -> None:
    store(BAKING, SAILING)
    result = forget(BAKING.source_id, "--reason", "wrong")
    assert result.exit_code == 0, result.stderr
    assert "Forgot 1 source: " in result.stdout
    assert f"carrel forget --restore {BAKING.source_id}\n" in result.stdout
    assert read_stored("sources").keys() == {SAILING.source_id}
    [record] = read_stored("forgotten_sources").values()
    assert record["forgotten_by"] == "local"
    assert record["reason"] == "wrong"

    result = forget("--restore", BAKING.source_id)
    assert result.exit_code == 0
    assert result.stdout.startswith("Restored 1 source: ")
    assert read_stored("sources").keys() == {BAKING.source_id, SAILING.source_id}


def test_forgetting_several_sources_must_be_confirmed() -> None:
    store(BAKING, SAILING)
    ids = (BAKING.source_id, SAILING.source_id)
    result = forget(*ids, "--dry-run")
    assert result.exit_code == 0
    assert BAKING.title in result.stdout
    assert result.stdout.endswith("2 sources would be forgotten.\n")
    for answer in ("n\n", ""):
        result = forget(*ids, answer=answer)
        assert result.exit_code == 1
        assert "Forget 2 sources with " in result.stderr
        assert len(read_stored("sources")) == 2
    assert "Forgot 2 sources: 5 passages, " in forget(*ids, answer="y\n").stdout
    assert read_stored("sources") == {}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Name sources by SOURCE_ID, --folder, --tag or --sample."),
        (("--restore", "--tag", "a"), 2, "Forgotten sources cannot be found by tag"),
        (("unknown",), 1, "There is no source unknown. .venv/bin/carrel sources shows the ids."),
        (("--tag", "unknown"), 1, "No source has the tag unknown."),
        (("--folder", "/unknown"), 1, "No ingest from /unknown is recorded."),
    ],
)
def test_a_wrong_selection_of_sources_is_explained(
    arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in expect_error("forget", *arguments, code=code)


def test_a_tag_selects_sources_and_not_single_passages() -> None:
    tagged = replace(BAKING, source_id="tagged", tags=("Old Things",))
    section = replace(SAILING.sections[0], tags=("old things",))
    partly = replace(SAILING, source_id="partly", tags=(), sections=(section,))
    store(tagged, partly)
    result = forget("--tag", "old  things")
    assert result.exit_code == 0, result.stderr
    assert "In 1 source more, only single passages have the tag. They stay." in result.stderr
    assert read_stored("sources").keys() == {"partly"}


def test_ingest_leaves_a_forgotten_folder_out(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for number in range(4):
        write_file(vault, f"{number}.md", f"Note {number}.")
    write_file(vault, "sub/inner.md", "Inner.")
    ingest_path(vault)
    (vault / "0.md").unlink()  # a file that is missing is forgotten, too
    ingest_path(vault)

    assert forget("--folder", str(vault / "sub")).exit_code == 0
    assert len(read_stored("sources")) == 3
    result = forget("--folder", str(vault), "--yes")
    assert f"carrel forget --restore --folder {vault}\n" in result.stdout
    write_file(vault, "0.md", "Note 0.")
    ingest_path(vault)
    assert read_stored("sources") == {}

    assert forget("--restore", "--folder", str(vault)).exit_code == 0
    assert len(read_stored("sources")) == 5


def test_a_forgotten_folder_is_no_longer_watched(tmp_path: Path) -> None:
    vault = write_file(tmp_path / "vault", "0.md", "Note 0.").parent
    ingest_path(vault)
    run_in_database(lambda ctx: set_watched(vault, ctx.database, watched=True))
    assert "is no longer read when it changes" in forget("--folder", str(vault)).stderr
    [root] = run_in_database(lambda ctx: load_folders(ctx.database))
    assert not root.watched
    assert "To follow it" not in forget("--folder", str(vault)).stderr


def test_the_sample_is_forgotten_without_other_sources() -> None:
    store(BAKING)
    ingest_path(SAMPLE)
    assert len(read_stored("sources")) == 13
    assert forget("--sample", "--yes").exit_code == 0
    assert read_stored("sources").keys() == {BAKING.source_id}
    ingest_path(SAMPLE)
    assert read_stored("sources").keys() == {BAKING.source_id}
    assert forget("--sample", "--restore").exit_code == 0
    assert len(read_stored("sources")) == 13


def test_the_traces_of_the_sample_are_withdrawn_and_restored() -> None:
    """A trace is a solved coding problem. Traces of users stay."""
    run_in_database(share_traces)
    trace_ids = set(read_stored("traces"))
    assert len(trace_ids) == 18
    run_in_database(contribute_other_trace)

    result = forget("--sample", "--dry-run")
    assert result.stdout.endswith("0 sources and 18 solved problems would be forgotten.\n")
    assert "Forgot 18 solved problems.\n" in forget("--sample", "--yes").stdout
    assert list_traces() == {OTHER_TRACE}
    assert forget("--sample", "--yes").stdout == "Nothing was forgotten.\n"

    result = forget("--sample", "--restore")
    assert result.exit_code == 0
    assert result.stdout.startswith("Restored 18 solved problems.")
    assert list_traces() == {OTHER_TRACE, *trace_ids}


async def contribute_other_trace(ctx: Context) -> None:
    """Store the trace of a user."""
    content = TraceContent(title="Own", context_text="A test hangs.", solution_text="Close it.")
    now = ctx.clock()
    trace = Trace(
        trace_id=OTHER_TRACE, content=content, contributor="anna", created_at=now, updated_at=now
    )
    await ctx.database.commit(
        Traces(ctx.database).build_creation_writes(trace, await build_index_entry(trace, ctx))
    )


def list_traces() -> set[str]:
    """Return the ids of the traces that are not withdrawn."""
    stored = read_stored("traces")
    return {name for name, trace in stored.items() if not trace.get("withdrawn_at")}


def test_all_that_a_run_removed_is_restored_with_its_command(tmp_path: Path) -> None:
    """The next run does not forget it again."""
    for number in range(4):
        write_file(tmp_path, f"{number}.md", f"Note {number}.")
    highlights = [
        {"id": n, "text": f"Thought {n}.", "readwise_url": f"https://readwise.io/open/{n}"}
        for n in range(3)
    ]
    write_export(tmp_path, make_readwise_book(highlights=highlights))
    ingest_path(tmp_path)
    (tmp_path / "0.md").unlink()
    write_export(tmp_path, make_readwise_book(highlights=[highlights[0] | {"is_deleted": True}]))
    report = run_in_database(
        lambda ctx: ingest(ctx, make_ample_budget()), ingest_path=str(tmp_path)
    )
    assert report.note.startswith("Removed 1 source and 2 passages, gone at the origin.")
    command = report.note.partition("carrel forget ")[2].split()

    result = forget(*command)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Restored 1 source and 1 single passage: 2 passages")
    ingest_path(tmp_path)
    assert len(read_stored("sources")) == 5
    chunks = run_in_database(read_chunks_by_text)
    assert {"Note 0.", "Thought 0."} <= chunks.keys()
    assert forget(*command).exit_code == 1  # nothing is left to restore

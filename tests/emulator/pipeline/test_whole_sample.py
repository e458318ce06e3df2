"""Every job runs over the whole sample, with the real clients of Readwise, Gemini and embeddings.

The result is pinned in `sample_state.json`, which contains each document without times: its short
fields as they are, and digests of the others; of the postings, a digest only. If a change of the
result is intended, write the file again, and review the difference:

    WRITE_SAMPLE_STATE=1 pytest tests/emulator/pipeline/test_whole_sample.py

The result is the same on any machine: vectors are whole numbers scaled to unit length, other
numbers are rounded, and clusters do not depend on the last bits of vectors.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from shared.core.ids import parse_source_id
from shared.core.settings import Settings
from tests.support.clock import SettableClock
from tests.support.database_state import (
    EXCLUDED_COLLECTIONS,
    State,
    describe_differences,
    format_state,
    read_state,
    remove_history,
    shorten_state,
)
from tests.support.fakes.readwise import BROKEN, FakeReadwise, make_throttled_reply
from tests.support.fakes.word_vertex import WordVertex
from tests.support.google_credentials import write_credentials_file
from tests.support.jobs import make_job_context
from tests.support.stored_documents import read_snapshots
from tests.support.whole_sample import (
    JOBS_IN_ORDER,
    STATE_FILE,
    fill_library,
    make_settings,
    open_app,
    read_exported_books,
    read_pinned_state,
    run_all_jobs,
    run_single_job,
)

pytestmark = [pytest.mark.slow]

CREATED_AT: Final = datetime(2026, 12, 1, 4, tzinfo=UTC)
"""The time when the account was created. Its highlights are older."""
DEFAULT_MAX_READS: Final = 10
MAX_READS: Final = {"index": 11, "repair": 2_000}
"""The maximum number of documents that a run with nothing to do reads, including the lease.

Index also looks for interrupted deletions.
Repair compares all postings with all chunks.
"""
DEFAULT_MAX_WRITES: Final = 3
MAX_WRITES: Final = {"ingest": 5}
"""The writes of a run with nothing to do: the lease, twice, and the record of the run.

Ingest also stores when it last read the bucket and the library.
"""
PATIENT, PYRAMID, BENCHMARK = 48210317, 49618240, 50911359
"""The ids of three books."""
LONG_HIGHLIGHT: Final = 4
"""The index of a highlight of the first book that makes two chunks."""
REPEATED_HIGHLIGHT: Final = 2
"""The index of a highlight of the second book that another book repeats."""


@pytest.fixture
def clock() -> SettableClock:
    """A clock that stands at the time when the account was created."""
    return SettableClock(CREATED_AT)


@pytest.fixture
def readwise(clock: SettableClock) -> Iterator[FakeReadwise]:
    """A server for a Readwise account with the sample, which sends twenty highlights per page."""
    with FakeReadwise(page_size=20, now=CREATED_AT) as server:
        fill_library(server)
        advance_clocks(server, clock, days=1)
        yield server


@pytest.fixture
def vertex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WordVertex]:
    """A server for Gemini and its embeddings."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credentials_file(tmp_path)))
    with WordVertex() as server:
        yield server


@pytest.fixture
def settings(project: str, readwise: FakeReadwise, vertex: WordVertex) -> Settings:
    """Settings that use these servers."""
    return make_settings(project, readwise, vertex)


def advance_clocks(readwise: FakeReadwise, clock: SettableClock, **passed: float) -> None:
    """Advance the clocks of Readwise and of Carrel."""
    readwise.advance(**passed)
    clock.now = readwise.now


async def read_database_contents(settings: Settings, clock: SettableClock) -> State:
    """Return all documents of a base."""
    async with open_app(settings, clock) as app:
        return await read_state(make_job_context(app))


async def read_write_times(settings: Settings, clock: SettableClock) -> dict[str, Any]:
    """Return the times of the last writes of all documents, except records of runs."""
    async with open_app(settings, clock) as app:
        ctx = make_job_context(app)
        names = [collection.id async for collection in ctx.database.connection.client.collections()]
        return {
            f"{name}/{key}": snapshot.update_time
            for name in names
            if name not in EXCLUDED_COLLECTIONS
            for key, snapshot in (await read_snapshots(ctx, name)).items()
        }


def change_account(readwise: FakeReadwise) -> None:
    """Edit the end of a highlight, delete a highlight and add one."""
    [book] = [book for book in read_exported_books() if book["user_book_id"] == PATIENT]
    highlight = dict(book["highlights"][LONG_HIGHLIGHT])
    del highlight["updated_at"]
    new_end = "And so we learned to test less, and never what does not hurt."
    highlight["text"] = f"{highlight['text'][:-200]} {new_end}"
    readwise.put_highlight(position=LONG_HIGHLIGHT, **highlight)
    readwise.delete_highlight(PYRAMID, REPEATED_HIGHLIGHT)
    new_text = (
        "First ask what a slow machine waits for, then measure that, and only then change code. It"
        " is slow because a cache that is never measured only grows. What does yours wait for?"
    )
    readwise.put_highlight(BENCHMARK, 9, new_text, highlighted_at="2026-12-02T10:00:00Z")


async def test_the_fake_account_equals_the_sample(readwise: FakeReadwise) -> None:
    readwise.page_size = 1_000
    books = sorted(read_exported_books(), key=lambda book: int(book["user_book_id"]))
    assert readwise.make_page()["results"] == books


async def test_the_whole_sample_ends_in_the_pinned_state(
    settings: Settings, clock: SettableClock
) -> None:
    reports = await run_all_jobs(settings, clock)
    assert not [failure for report in reports.values() for failure in report.failures]
    actual = shorten_state(await read_database_contents(settings, clock))
    if os.environ.get("WRITE_SAMPLE_STATE"):
        STATE_FILE.write_text(format_state(actual), encoding="utf-8")
    differences = describe_differences(read_pinned_state(), actual)
    assert not differences, f"{differences}\n\n{__doc__}"


async def test_repeated_jobs_write_nothing_and_call_no_model(
    settings: Settings, clock: SettableClock, readwise: FakeReadwise, vertex: WordVertex
) -> None:
    await run_all_jobs(settings, clock)
    advance_clocks(readwise, clock, days=1)
    before = await read_write_times(settings, clock)
    readwise.calls.clear()

    for job in JOBS_IN_ORDER:
        vertex.calls.clear()
        report = await run_single_job(job, settings, clock)

        assert report.failures == []
        assert report.finished
        cost = report.cost
        message = f"{job.name} read {cost.documents_read}, and wrote {cost.documents_written}"
        assert cost.documents_read <= MAX_READS.get(job.name, DEFAULT_MAX_READS), message
        assert cost.documents_written <= MAX_WRITES.get(job.name, DEFAULT_MAX_WRITES), message
        assert cost.input_tokens == 0, message
        assert cost.output_tokens == 0, message
        assert not vertex.calls, f"{job.name} called a model"

    assert len(readwise.calls) == 1
    after = await read_write_times(settings, clock)
    changed = [path for path in after | before if after.get(path) != before.get(path)]
    assert {path.partition("/")[0] for path in changed} == {"followed"}


async def test_a_changed_account_gives_the_same_base_as_a_new_one(
    settings: Settings,
    clock: SettableClock,
    readwise: FakeReadwise,
    vertex: WordVertex,
    project: str,
) -> None:
    await run_all_jobs(settings, clock)
    advance_clocks(readwise, clock, days=8)  # so late that any change causes reclustering
    change_account(readwise)
    advance_clocks(readwise, clock, hours=1)
    reports = await run_all_jobs(settings, clock)
    assert reports["ingest"].counts["created"] == 2
    assert reports["ingest"].counts["deleted"] == 2

    new_settings = make_settings(f"{project}-new", readwise, vertex)
    await run_all_jobs(new_settings, clock)
    expected = remove_history(await read_database_contents(new_settings, clock))
    actual = remove_history(await read_database_contents(settings, clock))
    restorable = actual.pop("forgotten")
    assert list(map(parse_source_id, restorable)) == [derive_book_source_id(str(PYRAMID))]
    differences = describe_differences(expected, actual)
    assert not differences, differences


async def test_the_sample_ends_in_the_same_state_despite_faults(
    settings: Settings, clock: SettableClock, readwise: FakeReadwise, vertex: WordVertex
) -> None:
    vertex.flaky = True
    readwise.repeats_pages = True
    readwise.page_size = 7
    readwise.script.extend([make_throttled_reply(), BROKEN, make_throttled_reply("0")])

    reports = await run_all_jobs(settings, clock)

    assert not [failure for report in reports.values() for failure in report.failures]
    assert len(readwise.script) == 0
    different_calls = {(call.path, call.text) for call in vertex.calls}
    assert len(vertex.calls) > 1.5 * len(different_calls)  # many were repeated
    actual = shorten_state(await read_database_contents(settings, clock))
    differences = describe_differences(read_pinned_state(), actual)
    assert not differences, differences

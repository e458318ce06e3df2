"""Every job over the whole sample, by the real clients: Readwise, Gemini and its embeddings.

What the jobs make of it is pinned in `sample_state.json`: each document, with its short fields as
they are and digests of the others, without times. Where that is to change, write it anew:

    WRITE_SAMPLE_STATE=1 pytest tests/emulator/pipeline/test_whole_sample.py

and read what differs. All of it is the same on any machine: vectors are whole numbers scaled to
unit length, other numbers are rounded, and topics do not hang on last bits (those of the sample
stay what they are when each number of the vectors is changed by a millionth).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.clock import SettableClock
from tests.support.database_state import (
    EXCLUDED_COLLECTIONS,
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.core.settings import Settings
    from tests.support.database_state import State

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHELVED: Final = datetime(2026, 12, 1, 4, tzinfo=UTC)
"""The time when the library was created. Its highlights are older."""
HANDFUL: Final = 10
MOST_READ: Final = {"index": 11, "purge": 18, "repair": 2_000, "health": 2_000}
"""Documents that a run with nothing to do reads at most, lease and all, where that is no handful:
index also looks for interrupted calls; purge looks once for each of the fourteen things that it
deletes; repair compares all lists with all
documents, and health searches, which is what they are for."""
WRITTEN: Final = 3
"""The writes of a run with nothing to do: the lease twice, and the run's record."""
GOLDEN: Final = 20
"""The number of queries that health embeds each night."""
PATIENT, PYRAMID, BENCHMARK = 48210317, 49618240, 50911359
"""The number of books."""
LONG: Final = 4
"""The index of a highlight that makes two chunks."""
FRIDAY: Final = 2
"""The index of a highlight that another book repeats."""
REPEATED: Final = 3
"""The extractions that become visible once these highlights are gone."""


@pytest.fixture
def clock() -> SettableClock:
    """A clock that starts the day after the library was created."""
    return SettableClock(SHELVED)


@pytest.fixture
def readwise(clock: SettableClock) -> Iterator[FakeReadwise]:
    """A server for Readwise with the sample, twenty highlights a page."""
    with FakeReadwise(page_size=20, now=SHELVED) as server:
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
    """Move the clocks of all parts forward."""
    readwise.advance(**passed)
    clock.now = readwise.now


async def read_database_contents(settings: Settings, clock: SettableClock) -> State:
    """Return all documents of a base."""
    async with open_app(settings, clock) as app:
        return await read_state(make_job_context(app))


async def write_times(settings: Settings, clock: SettableClock) -> dict[str, Any]:
    """Return the write times of all documents but run records."""
    async with open_app(settings, clock) as app:
        ctx = make_job_context(app)
        names = [collection.id async for collection in ctx.database.client.collections()]
        return {
            f"{name}/{key}": snapshot.update_time
            for name in names
            if name not in EXCLUDED_COLLECTIONS
            for key, snapshot in (await read_snapshots(ctx, name)).items()
        }


def change_library(readwise: FakeReadwise) -> None:
    """Edit the end of a highlight, delete one and add one."""
    [book] = [book for book in read_exported_books() if book["user_book_id"] == PATIENT]
    long = {k: v for k, v in book["highlights"][LONG].items() if k != "updated_at"}
    ending = "And so we learned to test less, and never what does not hurt."
    readwise.put_highlight(position=LONG, **long | {"text": f"{long['text'][:-200]} {ending}"})
    readwise.delete_highlight(PYRAMID, FRIDAY)
    slow = "First ask what a slow machine waits for, then measure that, and only then change code."
    why = "It is slow because a cache that is never measured only grows. What does yours wait for?"
    readwise.put_highlight(BENCHMARK, 9, f"{slow} {why}", highlighted_at="2026-12-02T10:00:00Z")


async def test_library_equals_the_sample(readwise: FakeReadwise) -> None:
    readwise.page_size = 1_000
    by_id = sorted(read_exported_books(), key=lambda book: int(book["user_book_id"]))
    assert readwise.make_page()["results"] == by_id


async def test_whole_sample_ends_in_the_pinned_state(
    settings: Settings, clock: SettableClock
) -> None:
    reports = await run_all_jobs(settings, clock)
    assert {name: report.failures for name, report in reports.items() if report.failures} == {}
    actual = shorten_state(await read_database_contents(settings, clock))
    if os.environ.get("WRITE_SAMPLE_STATE"):
        STATE_FILE.write_text(format_state(actual), encoding="utf-8")
    assert not (difference := describe_differences(read_pinned_state(), actual)), (
        f"{difference}\n\n{__doc__}"
    )


async def test_repeated_jobs_write_nothing_and_ask_no_model(
    settings: Settings, clock: SettableClock, readwise: FakeReadwise, vertex: WordVertex
) -> None:
    await run_all_jobs(settings, clock)
    advance_clocks(readwise, clock, days=1)
    before, call_count, listed = (
        await write_times(settings, clock),
        len(vertex.calls),
        len(readwise.calls),
    )
    for job in JOBS_IN_ORDER:
        report = await run_single_job(job, settings, clock)
        assert (report.failures, report.finished) == ([], True)
        cost, of_health = report.cost, job.name == "health"
        message = f"{job.name} read {cost.documents_read}, and wrote {cost.documents_written}"
        assert MOST_READ.get(job.name, HANDFUL) >= cost.documents_read, message
        assert WRITTEN + 2 * of_health >= cost.documents_written, (
            message
        )  # the night, under its lease
        assert (cost.input_tokens, cost.output_tokens) == (0, 0), message
        call_count += of_health * GOLDEN
        assert call_count == len(vertex.calls), f"{job.name} asked a model"
    assert len(readwise.calls) - listed == 1
    after = await write_times(settings, clock)
    assert [name for name in after | before if after.get(name) != before.get(name)] == [
        "meta/health"
    ]


async def test_changed_library_equals_a_new_base(
    settings: Settings,
    clock: SettableClock,
    readwise: FakeReadwise,
    vertex: WordVertex,
    project: str,
) -> None:
    await run_all_jobs(settings, clock)
    advance_clocks(readwise, clock, days=8)  # so late that topics are made anew for any change
    change_library(readwise)
    advance_clocks(readwise, clock, hours=1)
    reports = await run_all_jobs(settings, clock)
    assert (reports["ingest"].counts["created"], reports["ingest"].counts["deleted"]) == (2, 2)
    assert sum(report.counts["shown"] for report in reports.values()) == REPEATED
    fresh = make_settings(f"{project}-fresh", readwise, vertex)
    await run_all_jobs(fresh, clock)
    expected, actual = [
        remove_history(await read_database_contents(target, clock)) for target in (fresh, settings)
    ]
    assert not (difference := describe_differences(expected, actual)), difference


async def test_sample_ends_in_the_same_state_despite_faults(
    settings: Settings, clock: SettableClock, readwise: FakeReadwise, vertex: WordVertex
) -> None:
    vertex.flaky = readwise.repeats_pages = True
    readwise.page_size = 7
    readwise.script.extend([make_throttled_reply(), BROKEN, make_throttled_reply("0")])
    reports = await run_all_jobs(settings, clock)
    assert {name: report.failures for name, report in reports.items() if report.failures} == {}
    sent = {(call.path, call.text) for call in vertex.calls}
    assert (len(readwise.script), len(vertex.calls) > 1.5 * len(sent)) == (0, True)
    actual = shorten_state(await read_database_contents(settings, clock))
    assert not (difference := describe_differences(read_pinned_state(), actual)), difference

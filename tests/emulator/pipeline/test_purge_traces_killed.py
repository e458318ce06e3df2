"""An erasure of traces by a run of purge that is killed is completed by the next run.

A trace is a solved coding problem; one that supersedes another is linked with it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import pytest

from functions.jobs.purge.job import purge
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.clock import SettableClock
from tests.support.database_dump import find_orphans, read_all_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.killable_children import start_killable_children
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import assert_trace_postings_are_exact
from tests.support.tool_calls import call_result
from tests.support.traces import add_votes, contribute, vote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.killable_children import KillableChildren

pytestmark = pytest.mark.anyio

LEASE: Final = {"lease_seconds": 0.001}
"""Settings with a lease so short that the next run need not wait for it to expire."""


@pytest.fixture
def children() -> Iterator[KillableChildren]:
    """The parent of processes that are killed."""
    with start_killable_children() as killable_children:
        yield killable_children


def open_app(fields: dict[str, Any], days_ago: int = 0) -> App:
    """Return an app whose clock is this many days behind."""
    clock = SettableClock()
    clock.advance(days=-days_ago)
    return App(Settings(**fields), clock=clock, embedder=WordEmbedder())


async def make_traces(fields: dict[str, Any]) -> None:
    """Make a chain of three traces and a fourth one; withdraw the second and the fourth."""
    app = open_app(fields, days_ago=31)
    first = await contribute(app, 0, "anna")
    second = await contribute(app, 1, "anna", supersedes=first)
    await call_result(app, "amend_trace", "anna", trace_id=second, solution_text="Try again.")
    await add_votes(app, second, 2)
    third = await contribute(app, 2, "anna", supersedes=second)
    await vote(app, third, "ben")
    fourth = await contribute(app, 3, "ben")
    await call_result(app, "withdraw_trace", "anna", trace_id=second)
    await call_result(app, "withdraw_trace", "ben", trace_id=fourth)
    await app.aclose()


class State(NamedTuple):
    """The parts of a database that do not depend on random ids.

    Attributes:
        counts: The number of documents of each collection, except leases and records of runs.
        links: For each trace, its title and the titles of the traces before and after it.
        contributors: The records of the contributors.
    """

    counts: Counter[str]
    links: set[tuple[str, str | None, str | None]]
    contributors: dict[str, dict[str, Any]]


async def read_state(app: App) -> State:
    """Return the state of a database, which must have no orphans and exact postings."""
    documents = await read_all_documents(app.connection.client)
    assert find_orphans(documents) == []
    await assert_trace_postings_are_exact(app)
    traces = await read_app_documents(app, "traces")
    titles = {trace_id: data["title"] for trace_id, data in traces.items()}
    links = {
        (data["title"], titles.get(data["supersedes"]), titles.get(data["superseded_by"]))
        for data in traces.values()
    }
    counts = Counter(path.split("/")[0] for path in documents)
    del counts["runs"], counts["leases"]
    return State(counts, links, await read_app_documents(app, "contributors"))


async def run_survives(children: KillableChildren, fields: dict[str, Any], commits: int) -> bool:
    """Return whether a run finishes before it is killed, after this many commits."""
    run_child = partial(children.survives, fields, commits, job="purge")
    return await anyio.to_thread.run_sync(run_child)


@pytest.mark.parametrize(
    "commit_numbers",
    [
        pytest.param([2, 5], id="two"),
        pytest.param(range(1, 100), id="every", marks=pytest.mark.slow),
    ],
)
async def test_the_next_run_completes_one_killed_after_any_commit(
    children: KillableChildren, project: str, commit_numbers: Iterable[int]
) -> None:
    """The result is the same as that of a run that is not killed."""
    fields = LEASE | {"google_cloud_project": project}
    await make_traces(fields)
    app = open_app(fields)
    await purge(make_job_context(app), make_ample_budget())
    expected = await read_state(app)
    await app.aclose()

    for number in commit_numbers:
        fields = LEASE | {"google_cloud_project": f"{project}-{number}"}
        await make_traces(fields)
        is_finished = await run_survives(children, fields, number)
        app = open_app(fields)
        assert (await purge(make_job_context(app), make_ample_budget())).failures == []
        assert await read_state(app) == expected, f"killed after commit {number}"
        await app.aclose()
        if is_finished:
            break
    assert is_finished == (number > 6)

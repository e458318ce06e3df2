"""The next purge completes the erasure of a trace that a killed one began."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
from tests.support.stored_traces import assert_postings_exact
from tests.support.tool_calls import call_result
from tests.support.traces import add_votes, contribute, vote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.killable_children import KillableChildren

pytestmark = pytest.mark.anyio

LEASE: Final = {"lease_seconds": 0.001}
"""The lease is short, so that the next run need not wait."""


@pytest.fixture
def children() -> Iterator[KillableChildren]:
    with start_killable_children() as them:
        yield them


def open_app(fields: dict[str, Any], days_ago: int = 0) -> App:
    """Return an app whose clock is this many days behind."""
    clock = SettableClock()
    clock.advance(days=-days_ago)
    return App(Settings(**fields), clock=clock, embedder=WordEmbedder())


async def make_traces(fields: dict[str, Any]) -> None:
    """Make a chain of three traces, the second of them withdrawn, and a fourth trace."""
    app = open_app(fields, days_ago=31)
    made = [await contribute(app, 0, "anna")]
    made += [await contribute(app, 1, "anna", supersedes=made[0])]
    await call_result(app, "amend_trace", "anna", trace_id=made[1], solution_text="Try again.")
    await add_votes(app, made[1], 2)
    made += [await contribute(app, 2, "anna", supersedes=made[1])]
    await vote(app, made[2], "ben")
    other = await contribute(app, 3, "ben")
    for trace_id, user in ((made[1], "anna"), (other, "ben")):
        await call_result(app, "withdraw_trace", user, trace_id=trace_id)
    await app.aclose()


async def read_state(app: App) -> tuple[Any, ...]:
    """Return the number of documents by kind, the links between traces, and the records."""
    contents = await read_all_documents(app.connection.client)
    assert find_orphans(contents) == []
    await assert_postings_exact(app)
    traces = await read_app_documents(app, "traces")
    titles = {name: data["title"] for name, data in traces.items()}
    links = {
        (data["title"], titles.get(data["supersedes"]), titles.get(data["superseded_by"]))
        for data in traces.values()
    }
    kinds = Counter(path.split("/")[0] for path in contents)
    del kinds["runs"]
    return kinds, links, await read_app_documents(app, "contributors")


async def run_ends(children: KillableChildren, fields: dict[str, Any], commits: int) -> bool:
    """Kill a run after this many commits. Return whether it ended before."""
    order = partial(children.survives, fields, commits, job="purge")
    return await anyio.to_thread.run_sync(order)


@pytest.mark.parametrize(
    "points",
    [
        pytest.param([2, 5], id="two"),
        pytest.param(range(1, 100), id="every", marks=pytest.mark.slow),
    ],
)
async def test_killed_run_ends_in_the_same_state(
    children: KillableChildren, project: str, points: Iterable[int]
) -> None:
    calm = LEASE | {"google_cloud_project": project}
    await make_traces(calm)
    app = open_app(calm)
    await purge(make_job_context(app), make_ample_budget())
    expected = await read_state(app)
    await app.aclose()
    for commits in points:
        fields = LEASE | {"google_cloud_project": f"{project}-{commits}"}
        await make_traces(fields)
        done = await run_ends(children, fields, commits)
        app = open_app(fields)
        assert (await purge(make_job_context(app), make_ample_budget())).failures == []
        final = await read_state(app)
        del final[0]["leases"]
        assert commits == commits
        assert expected == final
        await app.aclose()
        if done:
            break
    assert done == (commits > 6)

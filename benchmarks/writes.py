"""The cost of conflicts between concurrent writers: votes on one trace, and tasks of one user.

Usage: python -m benchmarks.writes [VOTERS] [CLIENTS]

Calls run on the emulator as in a function, which retries after a conflict. The baseline is the same
number of concurrent calls without conflicts. A retried call reads again, so retries are computed
from the reads. Lost and duplicate writes are counted in the database afterwards.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.emulator import use_emulator
from benchmarks.measurement import print_table
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallRequest
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from shared.runtime.messages import CallAnswer

    ClientCalls = Callable[[int], Awaitable[list[CallAnswer]]]
    """A function that runs the calls of a client, one after the other."""

VOTERS: Final = 50
CLIENTS: Final = 20
TASKS_PER_CLIENT: Final = 5

TOOLS: Final = {tool.name: tool for tool in tools()}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of concurrent clients.

    Attributes:
        answers: The answers to all calls.
        seconds: The time from the first call to the last answer.
    """

    answers: list[CallAnswer]
    seconds: float

    @property
    def reads(self) -> int:
        """The documents read by all calls."""
        return sum(answer.receipt.documents_read for answer in self.answers)

    def make_row(self, name: str, baseline: Run, errors: str) -> list[str]:
        """Return the row of the table."""
        milliseconds = median(answer.receipt.milliseconds for answer in self.answers)
        retries = (self.reads / baseline.reads - 1) if baseline.reads else 0.0
        return [
            name,
            f"{len(self.answers)}",
            f"{len(self.answers) / self.seconds:.0f}",
            f"{self.seconds / baseline.seconds:.2f}",
            f"{milliseconds:.0f}",
            f"{retries:.1f}",
            errors,
        ]


async def call_tool(app: App, tool: str, user: str, /, **arguments: Any) -> CallAnswer:
    """Call a tool as a user, and require success."""
    request = CallRequest(
        call_id=uuid.uuid4().hex,
        arguments=arguments,
        caller=Caller.of(user),
        deadline=time.time() + 60,
    )
    answer = await invoke(TOOLS[tool], request, app)
    assert answer.result is not None, answer.error
    return answer


async def run_concurrently(clients: int, client_calls: ClientCalls) -> Run:
    """Run the calls of this many clients concurrently."""
    started = time.perf_counter()
    answers = await asyncio.gather(*(client_calls(number) for number in range(clients)))
    return Run([answer for batch in answers for answer in batch], time.perf_counter() - started)


async def measure_votes(app: App, voters: int) -> list[list[str]]:
    """Vote as this many users on different traces, then on the same trace."""
    traces = [await _contribute(app, number) for number in range(voters + 1)]
    hot_trace = traces.pop()

    async def vote_on(trace_id: str, number: int) -> list[CallAnswer]:
        vote = {"trace_id": trace_id, "vote_type": "up"}
        return [await call_tool(app, "vote_trace", f"voter-{number}", **vote)]

    separate = await run_concurrently(voters, lambda number: vote_on(traces[number], number))
    shared = await run_concurrently(voters, lambda number: vote_on(hot_trace, number))
    stored = await Traces(app.context(Caller(), Meter()).database).get(hot_trace)
    assert stored
    tally = stored.trace.tally
    errors = abs(voters - tally.upvotes) + abs(50 * voters - tally.up)
    return [
        separate.make_row("votes on different traces", separate, "-"),
        shared.make_row("votes on one trace", separate, f"{errors}"),
    ]


async def measure_tasks(app: App, clients: int) -> list[list[str]]:
    """Add tasks for different users, then for the same user."""

    async def add_tasks(user: str) -> list[CallAnswer]:
        titles = (f"Task {number}" for number in range(TASKS_PER_CLIENT))
        return [await call_tool(app, "add_task", user, title=title) for title in titles]

    separate = await run_concurrently(clients, lambda number: add_tasks(f"owner-{number}"))
    shared = await run_concurrently(clients, lambda _: add_tasks("owner"))
    task_numbers = _get_task_numbers(shared.answers)
    expected = set(range(1, clients * TASKS_PER_CLIENT + 1))
    duplicates = len(task_numbers) - len(set(task_numbers))
    errors = len(expected ^ set(task_numbers)) + duplicates
    return [
        separate.make_row("tasks of different users", separate, "-"),
        shared.make_row("tasks of one user", separate, f"{errors}"),
    ]


def _get_task_numbers(answers: Iterable[CallAnswer]) -> list[int]:
    return [int((answer.result or {})["task"]["task_id"]) for answer in answers]


async def _contribute(app: App, number: int) -> str:
    text = f"number {number:04d} {uuid.uuid4().hex}"
    trace = {"title": text, "context_text": f"Where is {text}?", "solution_text": f"Here: {text}."}
    answer = await call_tool(app, "contribute_trace", "author", **trace)
    return str((answer.result or {})["trace_id"])


async def measure(voters: int, clients: int) -> None:
    """Run both measurements, and print the tables."""
    app = App(Settings(google_cloud_project="bench-writes"))
    rows = [*await measure_votes(app, voters), *await measure_tasks(app, clients)]
    await app.aclose()
    columns = [
        "",
        "calls",
        "per second",
        "to baseline",
        "ms, median",
        "retries per call",
        "lost or duplicate",
    ]
    print_table(f"{voters} voters and {clients} clients at the same time", columns, rows)


def main(voters: int, clients: int) -> None:
    """Start an emulator, and measure."""
    with use_emulator():
        asyncio.run(measure(voters, clients))


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:3]] or [VOTERS, CLIENTS])

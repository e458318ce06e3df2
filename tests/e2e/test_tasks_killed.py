"""The function `add_task` is killed at random. Every call still adds its tasks exactly once.

Clients repeat a call that a kill interrupts, with the same idempotency key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from functions.tools.tasks.add_task.tool import TOOL as ADD_TASK
from shared.core.caller import Caller
from tests.support.random_kills import call_until_functions_survive, run_killed_function
from tests.support.tasks import list_all
from tests.support.tool_calls import make_call_request

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from shared.runtime.context import App
    from shared.runtime.messages import CallRequest
    from tests.support.random_kills import AnsweredCall

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILL_COUNT = 5
CLIENT_COUNT = 6
TASKS_PER_CALL = 3
"""The number of tasks that a call adds. The counter, the tasks and the answer are one commit."""


def make_titles(client: int, number: int) -> list[str]:
    """Return the titles of the tasks that a client's call adds."""
    return [f"{client}.{number}.{part}" for part in range(TASKS_PER_CALL)]


def make_call(client: int, number: int) -> tuple[str, CallRequest]:
    """Return the name of the function, and a client's call of this number."""
    tasks = [{"title": title} for title in make_titles(client, number)]
    arguments: dict[str, Any] = {"tasks": tasks, "idempotency_key": f"{client}.{number}"}
    return ADD_TASK.name, make_call_request(ADD_TASK, Caller.of("anna"), arguments)


async def test_calls_of_a_killed_function_run_once(
    app: App, project: str, tmp_path: Path, kill_generator: random.Random
) -> None:
    environment = {"GOOGLE_CLOUD_PROJECT": project}

    def run_calls() -> list[AnsweredCall]:
        log = tmp_path / "log"
        with run_killed_function(
            ADD_TASK.name, environment, log, kills=KILL_COUNT, generator=kill_generator
        ) as function:
            return call_until_functions_survive({ADD_TASK.name: function}, CLIENT_COUNT, make_call)

    answers = await anyio.to_thread.run_sync(run_calls)
    assert [call.answer.error for call in answers if call.answer.error] == []
    repeated_attempts = sum(call.attempts - 1 for call in answers)
    assert repeated_attempts >= KILL_COUNT

    stored = {int(task["task_id"]): task["title"] for task in await list_all(app, limit=100)}
    assert sorted(stored) == list(range(1, TASKS_PER_CALL * len(answers) + 1))
    keys = {call.request.arguments["idempotency_key"] for call in answers}
    assert len(keys) == len(answers)
    added_by_call = [read_added_tasks(call) for call in answers]
    for tasks in added_by_call:
        first_number = min(tasks)
        assert list(tasks) == list(range(first_number, first_number + TASKS_PER_CALL))
    assert stored == {number: title for tasks in added_by_call for number, title in tasks.items()}


def read_added_tasks(call: AnsweredCall) -> dict[int, str]:
    """Return the titles of the tasks that a call added, by number."""
    assert call.answer.result
    tasks = [result["task"] for result in call.answer.result["results"]]
    return {int(task["task_id"]): task["title"] for task in tasks}

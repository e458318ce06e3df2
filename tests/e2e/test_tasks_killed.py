"""The function that adds tasks is killed at any moment: nothing is lost, doubled or half there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from functions.tools.tasks.add_task.tool import TOOL as ADD
from shared.core.caller import Caller
from tests.support.random_kills import hammered, mortal
from tests.support.tasks import listed
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from shared.runtime.context import App
    from shared.runtime.messages import CallRequest
    from tests.support.random_kills import Answered

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KILLS = 5
CLIENTS = 6
AT_ONCE = 3
"""Tasks that each call adds: the counter, all of them and the answer are one commit."""


def titles(client: int, number: int) -> list[str]:
    return [f"{client}.{number}.{part}" for part in range(AT_ONCE)]


def adding(client: int, number: int) -> tuple[str, CallRequest]:
    tasks = [{"title": title} for title in titles(client, number)]
    arguments: dict[str, Any] = {"tasks": tasks, "idempotency_key": f"{client}.{number}"}
    return ADD.name, request_of(ADD, Caller.of("anna"), arguments)


async def test_each_call_of_a_function_that_dies_is_done_once(
    app: App,
    project: str,
    tmp_path: Path,
    kill_chance: random.Random,
) -> None:
    environment = {"GOOGLE_CLOUD_PROJECT": project}

    def work() -> list[Answered]:
        log = tmp_path / "log"
        with mortal(ADD.name, environment, log, kills=KILLS, chance=kill_chance) as function:
            return hammered({ADD.name: function}, CLIENTS, adding)

    answers = await anyio.to_thread.run_sync(work)
    assert [] == [each.answer.error for each in answers if each.answer.error]
    assert sum(each.sent - 1 for each in answers) >= KILLS

    stored = {int(each["task_id"]): each["title"] for each in await listed(app, limit=100)}
    assert list(range(1, AT_ONCE * len(answers) + 1)) == sorted(stored)
    calls = {each.request.arguments["idempotency_key"] for each in answers}
    assert len(answers) == len(calls)
    added = [results_of(each) for each in answers]
    for numbers, (first, *_) in ((list(each), list(each)) for each in added):
        assert list(range(first, first + AT_ONCE)) == numbers
    assert stored == {number: title for each in added for number, title in each.items()}


def results_of(answered: Answered) -> dict[int, str]:
    """The tasks that a call added, by the answer that arrived in the end."""
    assert answered.answer.result
    tasks = [each["task"] for each in answered.answer.result["results"]]
    return {int(task["task_id"]): task["title"] for task in tasks}

"""Functions that are killed again and again while clients call them, as crashes would.

What they must have kept, the caller of `hammered` looks up afterwards: every call was answered in
the end, sent again with the same idempotency key as often as it took.
"""

from __future__ import annotations

import subprocess
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx2

from infra.local.processes import serve
from shared.runtime.messages import CallAnswer
from tests.support.cloud_run.cloud import deployed

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from shared.runtime.messages import CallRequest

    Request = Callable[[int, int], tuple[str, CallRequest]]
    """The tool and the call that a client makes, by the client's number and the call's own; made
    anew for each time it is sent, with the same key."""

MOMENT: Final = 0.3
"""Seconds from a life's first answer to its kill, at most."""
PATIENCE: Final = 120.0
"""Seconds after which a client gives up a call that nobody has answered."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was answered in the end.

    Attributes:
        tool: Whom it was sent to.
        request: As it was sent the last time.
        answer: What came back.
        sent: How often it was sent.
    """

    tool: str
    request: CallRequest
    answer: CallAnswer
    sent: int


@dataclass(slots=True)
class Mortal:
    """A function that dies.

    Attributes:
        url: Where it answers in this life, or did in the last. Each has an address of its own:
            what was killed may hold on to its port for a moment.
        alive: Set while there is somebody to call.
        over: Set when it dies no more.
    """

    url: str = ""
    alive: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def mortal(
    tool: str,
    environment: Mapping[str, str],
    log: Path,
    *,
    kills: int,
    chance: random.Random,
) -> Iterator[Mortal]:
    """Serve a tool's function that is killed so many times while it is called, and then lives on.

    Args:
        tool: Its name.
        environment: Variables to add to this process's own.
        log: The file that takes what it prints.
        kills: How often to kill it, each time a moment after it has answered a call.
        chance: Chooses the moments.
    """
    it = Mortal()
    program = deployed(tool, environment)
    moments = [chance.uniform(0, MOMENT) for _ in range(kills)]

    def live() -> None:
        try:
            for moment in moments:
                if it.released.is_set():
                    break
                with serve(program, log=log) as served:
                    it.url = served.url
                    it.answered.clear()
                    it.alive.set()
                    it.answered.wait(PATIENCE)
                    with suppress(subprocess.TimeoutExpired):
                        served.process.wait(timeout=moment)
                    it.alive.clear()
                    served.kill()
            with serve(program, log=log) as served:
                it.url = served.url
                it.over.set()
                it.alive.set()
                it.released.wait()
        finally:
            it.over.set()

    with ThreadPoolExecutor(1) as thread:
        life = thread.submit(live)
        try:
            yield it
        finally:
            it.released.set()
            it.answered.set()
            life.result()


def hammered(functions: Mapping[str, Mortal], clients: int, request: Request) -> list[Answered]:
    """Let clients call until no function dies any more, and then once more; return all answers.

    Args:
        functions: Whom they call, by the tool's name.
        clients: How many call at once, each of them one call after the other.
        request: What they call.

    Raises:
        TimeoutError: A call was never answered.
    """

    def call_on_and_on(client: int) -> list[Answered]:
        answers: list[Answered] = []
        with httpx2.Client(timeout=60) as http:
            while not all(function.over.is_set() for function in functions.values()):
                answers.append(_answered(functions, http, lambda: request(client, len(answers))))
            answers.append(_answered(functions, http, lambda: request(client, len(answers))))
        return answers

    with ThreadPoolExecutor(clients) as threads:
        calling = [threads.submit(call_on_and_on, client) for client in range(clients)]
        done, _ = wait(calling, return_when=FIRST_EXCEPTION)
        if any(task.exception() for task in done):
            for function in functions.values():
                function.over.set()
        return [answer for task in calling for answer in task.result()]


def _answered(
    functions: Mapping[str, Mortal],
    http: httpx2.Client,
    request: Callable[[], tuple[str, CallRequest]],
) -> Answered:
    """Send a call until it is answered by more than that one may try again.

    Raises:
        TimeoutError: It never is.
    """
    sent, late = 0, time.monotonic() + PATIENCE
    tool, expected = request()
    it = functions[tool]
    while time.monotonic() < late and it.alive.wait(PATIENCE):
        _, expected = request()
        sent += 1
        with suppress(httpx2.TransportError):
            response = http.post(it.url, json=expected.model_dump(mode="json"))
            it.answered.set()
            answer = CallAnswer.model_validate_json(response.content)
            if not answer.error or answer.error.code != "UNAVAILABLE":
                return Answered(tool, expected, answer, sent)
    raise TimeoutError(f"{tool}, sent {sent} times, was never answered")

"""Kills tools' functions at random moments while clients call them.

A client that gets no answer sends the call again with the same idempotency key, until the call is
answered. Tests then check what the functions stored.
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
from tests.support.cloud_run.cloud import make_deployed_program

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from shared.runtime.messages import CallRequest

    Request = Callable[[int, int], tuple[str, CallRequest]]
    """A function that returns a tool's name and a request.

    Its arguments are the number of a client and the number of this client's call, from 0. It is
    called for each attempt of a call, and must return the same idempotency key.
    """

MAX_SECONDS_TO_KILL: Final = 0.3
"""The maximum time between the first answer of a function and its death."""
ANSWER_TIMEOUT_SECONDS: Final = 120.0
"""The time after which a call without an answer fails a test."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call that was finally answered.

    Attributes:
        tool: The name of the tool.
        request: The last request.
        answer: The answer.
        attempts: The number of requests.
    """

    tool: str
    request: CallRequest
    answer: CallAnswer
    attempts: int


@dataclass(slots=True)
class KilledFunction:
    """A function that is killed several times.

    Attributes:
        url: The URL of the newest process. Each process has its own port, since a killed process
            may occupy its port for a moment.
        alive: Set while a process serves.
        over: Set when no more kills will follow.
        answered: Set when the newest process has answered a call.
        released: Set when the test no longer needs the function.
    """

    url: str = ""
    alive: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def run_killed_function(
    tool: str,
    environment: Mapping[str, str],
    log: Path,
    *,
    kills: int,
    generator: random.Random,
) -> Iterator[KilledFunction]:
    """Serve a tool's function, which is killed `kills` times during calls and then keeps running.

    Args:
        tool: The name of the tool.
        environment: Variables to add to this process's own.
        log: The file for the function's output.
        kills: The number of kills, each a moment after an answer.
        generator: The source of random delays.
    """
    function = KilledFunction()
    program = make_deployed_program(tool, environment)
    delays = [generator.uniform(0, MAX_SECONDS_TO_KILL) for _ in range(kills)]

    def serve_and_kill() -> None:
        try:
            for delay in delays:
                if function.released.is_set():
                    break
                with serve(program, log=log) as server:
                    function.url = server.url
                    function.answered.clear()
                    function.alive.set()
                    function.answered.wait(ANSWER_TIMEOUT_SECONDS)
                    with suppress(subprocess.TimeoutExpired):
                        server.process.wait(timeout=delay)
                    function.alive.clear()
                    server.kill()
            with serve(program, log=log) as server:
                function.url = server.url
                function.over.set()
                function.alive.set()
                function.released.wait()
        finally:
            function.over.set()

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(serve_and_kill)
        try:
            yield function
        finally:
            function.released.set()
            function.answered.set()
            future.result()


def call_until_functions_survive(
    functions: Mapping[str, KilledFunction], clients: int, request: Request
) -> list[AnsweredCall]:
    """Let clients call until no more kills follow, and once more; return the answered calls.

    Args:
        functions: The functions to call, by the tool's name.
        clients: The number of concurrent clients. Each makes one call after the other.
        request: A function that makes the requests.

    Raises:
        TimeoutError: A call was never answered.
    """

    def call_repeatedly(client: int) -> list[AnsweredCall]:
        answers: list[AnsweredCall] = []

        def next_request() -> tuple[str, CallRequest]:
            return request(client, len(answers))

        with httpx2.Client(timeout=60) as http:
            while not all(function.over.is_set() for function in functions.values()):
                answers.append(_call_until_answered(functions, http, next_request))
            answers.append(_call_until_answered(functions, http, next_request))
        return answers

    with ThreadPoolExecutor(clients) as threads:
        futures = [threads.submit(call_repeatedly, client) for client in range(clients)]
        finished_futures, _ = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in finished_futures):
            for function in functions.values():
                function.over.set()
        return [answer for future in futures for answer in future.result()]


def _call_until_answered(
    functions: Mapping[str, KilledFunction],
    http: httpx2.Client,
    request: Callable[[], tuple[str, CallRequest]],
) -> AnsweredCall:
    """Send a call until the answer is not `UNAVAILABLE`.

    Raises:
        TimeoutError: The call was never answered.
    """
    attempts = 0
    deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
    tool, call_request = request()
    function = functions[tool]
    while time.monotonic() < deadline and function.alive.wait(ANSWER_TIMEOUT_SECONDS):
        _, call_request = request()
        attempts += 1
        with suppress(httpx2.TransportError):
            response = http.post(function.url, json=call_request.model_dump(mode="json"))
            function.answered.set()
            answer = CallAnswer.model_validate_json(response.content)
            if not answer.error or answer.error.code != "UNAVAILABLE":
                return AnsweredCall(tool, call_request, answer, attempts)
    raise TimeoutError(f"{tool}, sent {attempts} times, was never answered")

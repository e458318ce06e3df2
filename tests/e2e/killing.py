"""A function that is killed again and again while clients call it, as crashes would.

What it must have kept, the caller of `hammered` looks up afterwards: every call was answered in the
end, sent again with the same idempotency key as often as it took.
"""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx2

from infra.local.processes import free_port, serve
from shared.call import CallAnswer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from shared.call import CallRequest

    Request = Callable[[int, int], CallRequest]
    """The call that a client makes, by the client's number and the call's own; made anew for each
    time it is sent, with the same key."""

MOMENT: Final = 0.3
"""Seconds from a life's first answer to its kill, at most."""
PATIENCE: Final = 60.0
"""Seconds that a client waits for the function to come back."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was answered in the end.

    Attributes:
        request: As it was sent the last time.
        answer: What came back.
        sent: How often it was sent.
    """

    request: CallRequest
    answer: CallAnswer
    sent: int


@dataclass(slots=True)
class Mortal:
    """A function that dies.

    Attributes:
        url: Where it answers, whenever it lives.
        kills: How often it was killed so far.
        alive: Set while there is somebody to call.
        over: Set when it dies no more.
    """

    url: str
    kills: int = 0
    alive: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def mortal(
    source: Path,
    environment: Mapping[str, str],
    log: Path,
    *,
    kills: int,
    chance: random.Random,
) -> Iterator[Mortal]:
    """Serve a function that is killed so many times while it is called, and then lives on.

    Args:
        source: Its `main.py`.
        environment: Variables to add to this process's own.
        log: The file that takes what it prints.
        kills: How often to kill it, each time a moment after it has answered a call.
        chance: Chooses the moments.
    """
    port = free_port()
    it = Mortal(f"http://127.0.0.1:{port}")

    def live() -> None:
        try:
            while it.kills < kills:
                with serve(source, environment, port=port, log=log) as served:
                    it.answered.clear()
                    it.alive.set()
                    it.answered.wait(PATIENCE)
                    with suppress(subprocess.TimeoutExpired):
                        served.process.wait(timeout=chance.uniform(0, MOMENT))
                    it.alive.clear()
                    served.kill()
                    it.kills += 1
            with serve(source, environment, port=port, log=log):
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
            life.result()


def hammered(it: Mortal, clients: int, request: Request) -> list[Answered]:
    """Let clients call until it dies no more, and each of them once more; return all answers."""

    def call_on_and_on(client: int) -> list[Answered]:
        answers: list[Answered] = []
        with httpx2.Client(timeout=20) as http:
            while not it.over.is_set():
                answers.append(_answered(it, http, lambda: request(client, len(answers))))
            answers.append(_answered(it, http, lambda: request(client, len(answers))))
        return answers

    with ThreadPoolExecutor(clients) as threads:
        return [each for some in threads.map(call_on_and_on, range(clients)) for each in some]


def _answered(it: Mortal, http: httpx2.Client, request: Callable[[], CallRequest]) -> Answered:
    """Send a call until it is answered by more than that one may try again."""
    sent = 0
    while it.alive.wait(PATIENCE):
        wanted = request()
        sent += 1
        with suppress(httpx2.TransportError):
            response = http.post(it.url, json=wanted.model_dump(mode="json"))
            it.answered.set()
            answer = CallAnswer.model_validate_json(response.content)
            if not answer.error or answer.error.code != "UNAVAILABLE":
                return Answered(wanted, answer, sent)
    raise TimeoutError(it.url)

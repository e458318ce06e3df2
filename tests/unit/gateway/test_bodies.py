"""A body is read whole before anybody hears of its request, and not for longer than it may take."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from functions.gateway.body_limits import (
    LARGE_BODY,
    MAX_HELD_BYTES,
    SLOWEST_LINE,
    BodyLimit,
    json_problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive, Scope, Send

    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

LEFT: Message = {"type": "http.disconnect"}


class Reader:
    """An app that reads its request.

    Attributes:
        bodies: What it read.
        messages: In how many messages it came.
    """

    def __init__(self) -> None:
        """Read nothing yet."""
        self.bodies: list[bytes] = []
        self.messages = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, and answer with nothing."""

        async def counted() -> Message:
            self.messages += 1
            return await receive()

        self.bodies.append(await Request(scope, counted).body())
        await PlainTextResponse("")(scope, receive, send)


def in_parts(parts: Iterable[bytes]) -> list[Message]:
    """The messages of a body that comes in these parts."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    return [*messages[:-1], messages[-1] | {"more_body": False}]


async def sent(bounded: BodyLimit, messages: list[Message], **headers: str) -> tuple[int, str]:
    """The status of what a request is answered, and what its error says."""
    answer: list[Any] = []
    coming = iter(messages)

    async def receive() -> Message:
        for message in coming:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        answer.append(message)

    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": encoded}
    await bounded(scope, receive, send)
    body = answer[1]["body"]
    return answer[0]["status"], json.loads(body)["error"]["message"] if body else ""


@pytest.mark.parametrize(
    "parts", [[b""], [b"abc"], [b"a", b"", b"bc"], [b"ab" * 50_000] * 3, [b"x"] * 70_000]
)
async def test_a_body_arrives_as_it_was_sent(parts: list[bytes]) -> None:
    reader = Reader()
    assert (200, "") == await sent(BodyLimit(reader, lambda _: 300_000), in_parts(parts))
    assert [b"".join(parts)] == reader.bodies


async def test_many_small_parts_are_handed_on_in_few() -> None:
    reader = Reader()
    await sent(BodyLimit(reader, lambda _: 1_000_000), in_parts([b"x"] * 200_000))
    assert 200_000 // (64 * 1024) + 1 == reader.messages


async def test_a_body_may_be_as_large_as_allowed_and_no_larger() -> None:
    reader = Reader()
    bounded = BodyLimit(reader, lambda _: 1_000, lambda _: "Send less at once.")
    too_large = "This request has more than the 1,000 bytes that are taken here. Send less at once."
    assert (200, "") == await sent(bounded, in_parts([b"x" * 600, b"x" * 400]))
    assert (413, too_large) == await sent(bounded, in_parts([b"x" * 600, b"x" * 401]))
    assert (413, too_large) == await sent(bounded, in_parts([b"x"]), content_length="1001")
    assert [b"x" * 1_000] == reader.bodies


async def test_a_client_that_leaves_is_not_waited_for() -> None:
    reader = Reader()
    await sent(BodyLimit(reader, lambda _: 9), [*in_parts([b"a", b"b"])[:1], LEFT])
    assert [b"a"] == reader.bodies


async def test_who_may_send_more_has_more_time_for_it(monotonic: Monotonic) -> None:
    unfinished = in_parts([b"a", b"b"])[:1]
    little, more = (
        asyncio.create_task(sent(BodyLimit(Reader(), most, seconds=60), unfinished))
        for most in (lambda _: 1, lambda _: 60 * SLOWEST_LINE)
    )
    for over, under_way in ((little, [more]), (more, [])):
        monotonic.turn_soon(61)
        status, message = await over
        assert (408, True) == (status, "too long to arrive" in message)
        assert not any(task.done() for task in under_way)


async def test_a_body_of_a_long_text_is_taken_and_one_of_many_things_is_not() -> None:
    reader = Reader()
    bounded = BodyLimit(reader, lambda _: 3_000_000, problem_in=json_problem)
    text = json.dumps({"materials": "[1, 2], " * 100_000}).encode()
    assert (200, "") == await sent(bounded, in_parts([text]))
    told = await sent(bounded, in_parts([b"[" + b"[]," * 200_000 + b"0]"]))
    assert (400, "This request has more than 50,000 values. Send fewer at once.") == told
    assert [text] == reader.bodies


async def test_half_a_surrogate_pair_is_refused_in_words() -> None:
    reader = Reader()
    bounded = BodyLimit(reader, lambda _: 1_000_000, problem_in=json_problem)
    for padding in (b"", b" " * LARGE_BODY):
        status, message = await sent(bounded, in_parts([b'"\\ud8', b'3d"', padding]))
        assert (400, True) == (status, "half of a surrogate pair" in message)
    assert [] == reader.bodies


async def test_the_event_loop_goes_on_while_a_large_body_is_checked() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    bounded = BodyLimit(Reader(), lambda _: 1_000_000, problem_in=json_problem)
    await sent(bounded, in_parts([b'"', b"\\ud83d" * 100_000, b'"']))
    counting.cancel()
    assert turns > 0


async def test_more_long_bodies_at_once_than_an_instance_holds_are_put_off() -> None:
    bounded = BodyLimit(Reader(), lambda _: MAX_HELD_BYTES)
    gone = asyncio.Event()

    async def leaves_late() -> Message:
        await gone.wait()
        return LEFT

    part = b"x" * (MAX_HELD_BYTES // 4)
    coming = iter(in_parts([part] * 4)[:3])

    async def receive() -> Message:
        for message in coming:
            return message
        return await leaves_late()

    async def send(_message: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    slow = asyncio.create_task(bounded(scope, receive, send))
    await asyncio.sleep(0)
    status, told = await sent(bounded, in_parts([part, part]))
    assert (503, True) == (status, "a few seconds" in told)
    assert (200, "") == await sent(bounded, in_parts([b"{}"]))
    gone.set()
    await slow
    assert (200, "") == await sent(bounded, in_parts([part]))

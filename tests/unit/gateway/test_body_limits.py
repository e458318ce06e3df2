"""The gateway reads request bodies whole, within a time limit, and checks them before parsing."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from functions.gateway.body_limits import (
    LARGE_BODY_BYTES,
    MAX_BUFFERED_BYTES,
    MAX_VALUES,
    MIN_BYTES_PER_SECOND,
    BodyLimit,
    count_values,
    find_json_problem,
    has_half_surrogate_pair,
)
from tests.support.monotonic_clock import MonotonicClock

DISCONNECT: Message = {"type": "http.disconnect"}
TEXTS = st.text(
    st.characters(codec=None, categories=("Cs", "Lu", "So", "Po", "Zs", "Cc")), max_size=20
)


class BodyReader:
    """An app that reads its request, and answers with an empty body."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.messages = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_and_count() -> Message:
            self.messages += 1
            return await receive()

        self.bodies.append(await Request(scope, receive_and_count).body())
        await PlainTextResponse("")(scope, receive, send)


def make_messages(parts: Iterable[bytes]) -> list[Message]:
    """Return the messages of a body that comes in these parts."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    return [*messages[:-1], messages[-1] | {"more_body": False}]


class Reply(NamedTuple):
    """The status of a response, and its error message, which is empty if the body is accepted."""

    status: int
    message: str = ""


async def send_body(limit: BodyLimit, messages: list[Message], **headers: str) -> Reply:
    """Send a request with a body in these messages."""
    responses: list[Any] = []
    remaining_messages = iter(messages)

    async def receive() -> Message:
        for message in remaining_messages:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        responses.append(message)

    encoded_headers = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
    ]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": encoded_headers}
    await limit(scope, receive, send)
    body = responses[1]["body"]
    return Reply(responses[0]["status"], json.loads(body)["error"]["message"] if body else "")


@pytest.mark.parametrize(
    "parts", [[b""], [b"a", b"", b"bc"], [b"ab" * 50_000] * 3, [b"x"] * 70_000]
)
async def test_a_body_arrives_whole_and_unchanged(parts: list[bytes]) -> None:
    reader = BodyReader()
    limit = BodyLimit(reader, lambda _: 300_000)
    assert await send_body(limit, make_messages(parts)) == Reply(200)
    assert (reader.bodies, reader.messages) == ([b"".join(parts)], 1)

    # The gateway does not wait for a client that has left.
    await send_body(limit, [*make_messages([b"a", b"b"])[:1], DISCONNECT])
    assert reader.bodies[1] == b"a"


async def test_body_size_is_limited() -> None:
    reader = BodyReader()
    limit = BodyLimit(reader, lambda _: 1_000, lambda _: "Send less at once.")
    too_large = Reply(413, "This request is larger than 1,000 bytes. Send less at once.")
    assert await send_body(limit, make_messages([b"x" * 600, b"x" * 400])) == Reply(200)
    assert await send_body(limit, make_messages([b"x" * 600, b"x" * 401])) == too_large
    assert await send_body(limit, make_messages([b"x"]), content_length="1001") == too_large
    assert reader.bodies == [b"x" * 1_000]


async def test_a_larger_body_limit_allows_more_time(monotonic: MonotonicClock) -> None:
    def send_unfinished_body(max_bytes: int) -> asyncio.Task[Reply]:
        limit = BodyLimit(BodyReader(), lambda _: max_bytes, timeout=60)
        return asyncio.create_task(send_body(limit, make_messages([b"a", b"b"])[:1]))

    small_limit_task = send_unfinished_body(1)
    large_limit_task = send_unfinished_body(60 * MIN_BYTES_PER_SECOND)  # 60 seconds more

    monotonic.advance_soon(61)
    status, message = await small_limit_task
    assert status == 408
    assert "too long to arrive" in message
    assert not large_limit_task.done()

    monotonic.advance_soon(61)
    status, message = await large_limit_task
    assert status == 408
    assert "too long to arrive" in message


async def test_a_long_text_is_accepted_but_many_values_are_rejected() -> None:
    reader = BodyReader()
    limit = BodyLimit(reader, lambda _: 3_000_000, find_problem=find_json_problem)
    text = json.dumps({"materials": "[1, 2], " * 100_000}).encode()

    assert await send_body(limit, make_messages([text])) == Reply(200)
    too_many = Reply(
        400, "This request has more than 50,000 JSON values. Send fewer in one request."
    )
    assert await send_body(limit, make_messages([b"[" + b"[]," * 200_000 + b"0]"])) == too_many
    assert reader.bodies == [text]


async def test_half_a_surrogate_pair_is_rejected_with_advice() -> None:
    reader = BodyReader()
    limit = BodyLimit(reader, lambda _: 1_000_000, find_problem=find_json_problem)
    for padding in (b"", b" " * LARGE_BODY_BYTES):
        status, message = await send_body(limit, make_messages([b'"\\ud8', b'3d"', padding]))
        assert status == 400
        assert "half of a surrogate pair" in message
    assert reader.bodies == []


async def test_checking_a_large_body_does_not_block_the_loop() -> None:
    loop_turns = 0

    async def count_loop_turns() -> None:
        nonlocal loop_turns
        while True:
            loop_turns += 1
            await asyncio.sleep(0)

    counter_task = asyncio.create_task(count_loop_turns())
    limit = BodyLimit(BodyReader(), lambda _: 1_000_000, find_problem=find_json_problem)
    await send_body(limit, make_messages([b'"', b"\\ud83d" * 100_000, b'"']))
    counter_task.cancel()
    assert loop_turns > 0


async def test_number_of_long_bodies_per_instance_is_limited() -> None:
    limit = BodyLimit(BodyReader(), lambda _: MAX_BUFFERED_BYTES)
    client_has_left = asyncio.Event()

    async def disconnect_later() -> Message:
        await client_has_left.wait()
        return DISCONNECT

    # Three of four parts arrive: the instance then has room for one more part.
    part = b"x" * (MAX_BUFFERED_BYTES // 4)
    remaining_messages = iter(make_messages([part] * 4)[:3])

    async def receive() -> Message:
        for message in remaining_messages:
            return message
        return await disconnect_later()

    async def send(_message: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    slow_request = asyncio.create_task(limit(scope, receive, send))
    await asyncio.sleep(0)

    status, message = await send_body(limit, make_messages([part, part]))
    assert status == 503
    assert "a few seconds" in message
    assert await send_body(limit, make_messages([b"{}"])) == Reply(200)

    client_has_left.set()
    await slow_request
    assert await send_body(limit, make_messages([part])) == Reply(200)


@pytest.mark.parametrize(
    ("body", "has_half_pair"),
    [
        (rb'"A comet\ud83d"', True),
        (rb'"\ude00 comet"', True),
        (rb'"\ud83d\ud83d\ude00"', True),
        (rb'"\uD83D\uDE00"', False),
        (rb'"C:\\ud83d"', False),
        (rb'"\\\ud83d"', True),
        (rb'{"\ud83d": 1}', True),
        (rb'"\ud83d', False),
        (rb'"\ud83d' + b"[" * 100_000, False),
    ],
)
def test_half_a_surrogate_pair_is_found(body: bytes, *, has_half_pair: bool) -> None:
    assert has_half_surrogate_pair(body) == has_half_pair


@given(TEXTS)
def test_only_text_invalid_in_utf_16_is_rejected(text: str) -> None:
    encoded = text.encode("utf-16-le", "surrogatepass")
    is_valid = encoded.decode("utf-16-le", "replace") == encoded.decode("utf-16-le", "ignore")
    assert has_half_surrogate_pair(json.dumps([text]).encode()) == (not is_valid)


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=20))
def test_punctuation_in_strings_is_not_counted_as_values(value: object) -> None:
    def count_exactly(node: object) -> int:
        return 1 + sum(map(count_exactly, node)) if isinstance(node, list) else 1

    estimate = count_values(json.dumps(value).encode())
    assert count_exactly(value) // 2 <= estimate <= 2 * count_exactly(value)


def test_values_are_counted_in_large_bodies() -> None:
    assert count_values(json.dumps({"materials": '[{,"\\",[' * 1000}).encode()) == 1
    assert count_values(b'"' + b'\\"' * 2_000_000) == 0  # a string that does not end
    assert count_values(b'"' + b'\\"' * 1_000 + b"\\") == 0
    for value in (b'"",', b'"a":"b",', b"[],", b"1,"):
        assert count_values(value * 1_000_000) > MAX_VALUES

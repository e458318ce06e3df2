"""Bodies: read whole, in so much time, and checked before anybody parses them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse

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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive, Scope, Send

    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

LEFT: Message = {"type": "http.disconnect"}
TEXTS = st.text(
    st.characters(codec=None, categories=("Cs", "Lu", "So", "Po", "Zs", "Cc")), max_size=20
)


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
    """Return the messages of a body that comes in these parts."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    return [*messages[:-1], messages[-1] | {"more_body": False}]


async def send_body(limit: BodyLimit, messages: list[Message], **headers: str) -> tuple[int, str]:
    """Return the status of the response to a request, and its error message."""
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
    await limit(scope, receive, send)
    body = answer[1]["body"]
    return answer[0]["status"], json.loads(body)["error"]["message"] if body else ""


@pytest.mark.parametrize(
    "parts", [[b""], [b"abc"], [b"a", b"", b"bc"], [b"ab" * 50_000] * 3, [b"x"] * 70_000]
)
async def test_body_arrives_unchanged(parts: list[bytes]) -> None:
    reader = Reader()
    assert await send_body(BodyLimit(reader, lambda _: 300_000), in_parts(parts)) == (200, "")
    assert reader.bodies == [b"".join(parts)]


async def test_small_parts_are_joined() -> None:
    reader = Reader()
    await send_body(BodyLimit(reader, lambda _: 1_000_000), in_parts([b"x"] * 200_000))
    assert reader.messages == 1


async def test_body_size_is_limited() -> None:
    reader = Reader()
    limit = BodyLimit(reader, lambda _: 1_000, lambda _: "Send less at once.")
    too_large = "This request is larger than 1,000 bytes. Send less at once."
    assert await send_body(limit, in_parts([b"x" * 600, b"x" * 400])) == (200, "")
    assert await send_body(limit, in_parts([b"x" * 600, b"x" * 401])) == (413, too_large)
    assert await send_body(limit, in_parts([b"x"]), content_length="1001") == (413, too_large)
    assert reader.bodies == [b"x" * 1_000]


async def test_disconnected_client_is_not_awaited() -> None:
    reader = Reader()
    await send_body(BodyLimit(reader, lambda _: 9), [*in_parts([b"a", b"b"])[:1], LEFT])
    assert reader.bodies == [b"a"]


async def test_larger_limit_allows_more_time(monotonic: Monotonic) -> None:
    unfinished = in_parts([b"a", b"b"])[:1]
    little, more = (
        asyncio.create_task(send_body(BodyLimit(Reader(), max_bytes, timeout=60), unfinished))
        for max_bytes in (lambda _: 1, lambda _: 60 * MIN_BYTES_PER_SECOND)
    )
    for over, under_way in ((little, [more]), (more, [])):
        monotonic.advance_soon(61)
        status, message = await over
        assert status == 408
        assert "too long to arrive" in message
        assert not any(task.done() for task in under_way)


async def test_long_text_is_accepted_and_many_values_are_not() -> None:
    reader = Reader()
    limit = BodyLimit(reader, lambda _: 3_000_000, find_problem=find_json_problem)
    text = json.dumps({"materials": "[1, 2], " * 100_000}).encode()
    assert await send_body(limit, in_parts([text])) == (200, "")
    refused = await send_body(limit, in_parts([b"[" + b"[]," * 200_000 + b"0]"]))
    assert refused == (
        400,
        "This request has more than 50,000 JSON values. Send fewer in one request.",
    )
    assert reader.bodies == [text]


async def test_half_a_surrogate_pair_is_rejected_with_advice() -> None:
    reader = Reader()
    limit = BodyLimit(reader, lambda _: 1_000_000, find_problem=find_json_problem)
    for padding in (b"", b" " * LARGE_BODY_BYTES):
        status, message = await send_body(limit, in_parts([b'"\\ud8', b'3d"', padding]))
        assert status == 400
        assert "half of a surrogate pair" in message
    assert reader.bodies == []


async def test_checking_a_large_body_does_not_block_the_loop() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    limit = BodyLimit(Reader(), lambda _: 1_000_000, find_problem=find_json_problem)
    await send_body(limit, in_parts([b'"', b"\\ud83d" * 100_000, b'"']))
    counting.cancel()
    assert turns > 0


async def test_number_of_long_bodies_per_instance_is_limited() -> None:
    limit = BodyLimit(Reader(), lambda _: MAX_BUFFERED_BYTES)
    gone = asyncio.Event()

    async def leaves_late() -> Message:
        await gone.wait()
        return LEFT

    part = b"x" * (MAX_BUFFERED_BYTES // 4)
    coming = iter(in_parts([part] * 4)[:3])

    async def receive() -> Message:
        for message in coming:
            return message
        return await leaves_late()

    async def send(_message: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    slow = asyncio.create_task(limit(scope, receive, send))
    await asyncio.sleep(0)
    status, message = await send_body(limit, in_parts([part, part]))
    assert status == 503
    assert "a few seconds" in message
    assert await send_body(limit, in_parts([b"{}"])) == (200, "")
    gone.set()
    await slow
    assert await send_body(limit, in_parts([part])) == (200, "")


@pytest.mark.parametrize(
    ("body", "is_half"),
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
def test_half_a_surrogate_pair_is_found(body: bytes, is_half: bool) -> None:  # noqa: FBT001
    assert has_half_surrogate_pair(body) == is_half


@given(TEXTS)
def test_only_text_invalid_in_utf_16_is_rejected(text: str) -> None:
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        is_half = False
    except UnicodeDecodeError:
        is_half = True
    assert has_half_surrogate_pair(json.dumps([text]).encode()) == is_half


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=20))
def test_punctuation_in_strings_is_not_counted_as_values(value: object) -> None:
    def values(node: object) -> int:
        return 1 + sum(map(values, node)) if isinstance(node, list) else 1

    counted = count_values(json.dumps(value).encode())
    assert values(value) // 2 <= counted <= 2 * values(value)


def test_string_counts_as_one_value() -> None:
    assert count_values(json.dumps({"materials": '[{,"\\",[' * 1000}).encode()) == 1


def test_unterminated_string_takes_no_longer() -> None:
    assert count_values(b'"' + b'\\"' * 2_000_000) == 0
    assert count_values(b'"' + b'\\"' * 1_000 + b"\\") == 0


@pytest.mark.parametrize("value", [b'"",', b'"a":"b",', b"[],", b"1,"])
def test_millions_of_values_are_too_many(value: bytes) -> None:
    assert count_values(value * 1_000_000) > MAX_VALUES

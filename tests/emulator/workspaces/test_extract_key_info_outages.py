"""`extract_key_info` reports an outage while the database refuses connections or hangs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import pytest

from shared.ai.embedding import Purpose, Vector
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_after_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import extract_result
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_materials import (
    QUERY,
    assert_says_to_call_again,
    call_extract_with_deadline,
    make_text,
)
from tests.support.tcp_proxy import TcpProxy, run_emulator_proxy, use_emulator_at

pytestmark = [pytest.mark.usefixtures("instant_sleep")]

TEXT: Final = make_text()
DEADLINE: Final = 30.0
"""The deadline of a call; the clock is advanced once the database is away."""


class HangingEmbedder(WordEmbedder):
    """A model that embeds one batch and then hangs."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        if self.is_down:
            await asyncio.Event().wait()
        self.is_down = True
        return await WordEmbedder().embed(texts, purpose)


class UnusedEmbedder(WordEmbedder):
    """A model that must not be called."""

    async def embed(self, *_: Any) -> Any:
        raise AssertionError


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    async with run_emulator_proxy() as opened_proxy:
        yield opened_proxy


async def disconnect(proxy: TcpProxy, fault: str, monotonic: MonotonicClock) -> None:
    """Let the proxy refuse connections, or hang; if it hangs, advance the clock to the deadline."""
    await getattr(proxy, fault)()
    if fault == "hang":
        monotonic.advance_soon(DEADLINE)


def connect(app: App, proxy: TcpProxy) -> App:
    with use_emulator_at(proxy.host):
        assert app.connection.client
    return app


@pytest.mark.requirement("001-C9")
async def test_a_missing_database_is_an_outage_without_embedding(
    proxy: TcpProxy, apps: Apps
) -> None:
    await proxy.refuse()
    app = connect(apps(embedder=UnusedEmbedder()), proxy)
    requests: list[dict[str, Any]] = [
        {"materials": TEXT},
        {"document": content_id(TEXT)},
        {"scope": "task"},
    ]
    answers = await asyncio.gather(
        *(call_extract_with_deadline(app, seconds=DEADLINE, **arguments) for arguments in requests)
    )
    for answer in answers:
        assert_says_to_call_again(answer.error)
        assert answer.receipt.documents_written == 0


@pytest.mark.parametrize("fault", ["refuse", "hang"])
async def test_a_call_does_not_wait_for_a_database_that_is_lost(
    proxy: TcpProxy, apps: Apps, monotonic: MonotonicClock, clock: SettableClock, fault: str
) -> None:
    """It may be lost after any commit, which is tested for all tools that write."""
    embedder = HangingEmbedder() if fault == "hang" else WordEmbedder()
    hook = call_after_commit(2, partial(disconnect, proxy, fault, monotonic))
    app = apps(hook, embedder=embedder, clock=clock)
    answer = await call_extract_with_deadline(connect(app, proxy), seconds=DEADLINE, materials=TEXT)
    assert app.commits >= 2
    assert_says_to_call_again(answer.error)
    await proxy.restore()
    clock.advance(seconds=DEADLINE)
    assert (await extract_result(apps(clock=clock), QUERY, materials=TEXT))["status"] == "ready"


async def test_connections_broken_for_a_moment_are_restored(proxy: TcpProxy, apps: Apps) -> None:
    async def interrupt() -> None:
        await proxy.refuse()
        await proxy.restore()

    app = connect(apps(call_after_commit(3, interrupt)), proxy)
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["status"] == "ready"
    assert await extract_result(app, QUERY, document=result["document"]) == result | {"known": True}

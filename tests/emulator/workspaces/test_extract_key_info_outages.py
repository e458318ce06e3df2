"""`extract_key_info` reports an outage while the database refuses connections or hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import pytest

from shared.ai.embedding import Purpose, Vector
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support.commit_hooks import KILL_AT_SOME_OR_ALL_COMMITS, WatchedApp, call_after_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import extract_result
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_materials import (
    QUERY,
    assert_says_to_call_again,
    assert_workspace_is_empty,
    call_extract_with_deadline,
    find_differing_documents,
    make_text,
    read_workspaces,
)
from tests.support.tcp_proxy import TcpProxy, run_emulator_proxy, use_emulator_at

pytestmark = [pytest.mark.usefixtures("instant_sleep")]

TEXT: Final = make_text()
DEADLINE: Final = 30.0
"""The deadline of a call; the clock is advanced once the database is away."""


class HangingEmbedder(WordEmbedder):
    """A model that embeds one batch and then hangs."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the first batch, and never return for the second."""
        if self.is_down:
            await asyncio.Event().wait()
        self.is_down = True
        return await WordEmbedder().embed(texts, purpose)


class UnusedEmbedder(WordEmbedder):
    """A model that must not be called."""

    async def embed(self, *_: Any) -> Any:
        """Fail the test."""
        raise AssertionError


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    """A proxy in front of the database."""
    async with run_emulator_proxy() as opened_proxy:
        yield opened_proxy


def make_settings(project: str, number: int) -> Settings:
    """Return the settings of a separate database."""
    return Settings(google_cloud_project=f"{project}-{number}")


async def disconnect(proxy: TcpProxy, fault: str, monotonic: MonotonicClock) -> None:
    """Let the proxy refuse connections, or hang; if it hangs, advance the clock to the deadline."""
    await getattr(proxy, fault)()
    if fault == "hang":
        monotonic.advance_soon(DEADLINE)


def connect(app: App, proxy: TcpProxy) -> App:
    """Return an app that connects through the proxy."""
    with use_emulator_at(proxy.host):
        assert app.connection.client
    return app


@pytest.mark.requirement("001-C9")
async def test_a_missing_database_is_an_outage_without_embedding(
    proxy: TcpProxy, project: str
) -> None:
    await proxy.refuse()
    app = connect(App(make_settings(project, 0), embedder=UnusedEmbedder()), proxy)
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
    await app.aclose()


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("fault", ["refuse", "hang"])
async def test_a_database_lost_after_any_commit_is_an_outage(
    project: str, fault: str, step: int, monotonic: MonotonicClock
) -> None:
    undisturbed_app = WatchedApp(make_settings(project, -1), embedder=WordEmbedder())
    expected = await extract_result(undisturbed_app, QUERY, materials=TEXT)
    expected_documents = await read_workspaces(undisturbed_app)
    await undisturbed_app.aclose()

    async def lose_database_after(commits: int) -> None:
        settings = make_settings(project, commits)
        async with run_emulator_proxy() as proxy:
            lose_database = partial(disconnect, proxy, fault, monotonic)
            app = WatchedApp(
                settings, call_after_commit(commits, lose_database), embedder=WordEmbedder()
            )
            answer = await call_extract_with_deadline(
                connect(app, proxy), seconds=DEADLINE, materials=TEXT
            )
            assert app.commits >= commits
            assert_says_to_call_again(answer.error)
            await proxy.restore()
            await app.aclose()

        working_app = App(settings, embedder=WordEmbedder())
        documents = await read_workspaces(working_app)
        # A commit that was under way may have landed since.
        if documents.get(f"default/documents/{content_id(TEXT)}", {}).get("status") == "ready":
            assert find_differing_documents(expected_documents, documents) == {}, commits
        else:
            await assert_workspace_is_empty(working_app, TEXT)

        result = await extract_result(working_app, QUERY, materials=TEXT)
        assert result == expected | {"known": result["known"]}
        documents = await read_workspaces(working_app)
        assert find_differing_documents(expected_documents, documents) == {}, commits
        await working_app.aclose()

    assert undisturbed_app.commits > 4
    for commits in range(0, undisturbed_app.commits, step):
        await lose_database_after(commits)


async def test_a_time_out_does_not_wait_for_a_hanging_database(
    proxy: TcpProxy, project: str, monotonic: MonotonicClock
) -> None:
    hang = partial(disconnect, proxy, "hang", monotonic)
    app = WatchedApp(
        make_settings(project, 0), call_after_commit(3, hang), embedder=HangingEmbedder()
    )
    answer = await call_extract_with_deadline(connect(app, proxy), seconds=DEADLINE, materials=TEXT)
    assert app.commits >= 3
    assert_says_to_call_again(answer.error)
    await proxy.restore()
    await app.aclose()


async def test_connections_broken_for_a_moment_are_restored(proxy: TcpProxy, project: str) -> None:
    async def interrupt() -> None:
        await proxy.refuse()
        await proxy.restore()

    watched_app = WatchedApp(
        make_settings(project, 0), call_after_commit(3, interrupt), embedder=WordEmbedder()
    )
    app = connect(watched_app, proxy)
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["status"] == "ready"
    assert await extract_result(app, QUERY, document=result["document"]) == result | {"known": True}
    await app.aclose()

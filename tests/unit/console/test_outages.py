"""A tool that is down, or rejects a call, shows so, and the rest of the page stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.core.errors import NotFound, PlatformFault, RateLimited, Unavailable
from tests.support.console_app import console_client, make_result, parse_page, select, texts
from tests.support.fake_catalog import FakeDispatcher

if TYPE_CHECKING:
    from shared.core.errors import CarrelError

pytestmark = pytest.mark.anyio

OUTAGE = Unavailable("It is temporarily unreachable. Try again in 10 s.", retry_after=10)


def answer_but(tool_name: str, error: CarrelError) -> FakeDispatcher:
    def answer(tool: str, _arguments: dict[str, Any]) -> dict[str, Any] | CarrelError:
        return error if tool == tool_name else make_result(tool, "text")

    return FakeDispatcher(answer)


@pytest.mark.parametrize(
    ("tool", "path", "remains"),
    [
        ("get_stats", "/", ".rows"),
        ("list_sources", "/", ".chips"),
        ("search_kb", "/?q=x", ".search"),
        ("get_chunk", "/sources/s?passage=c", ".passage"),
        ("get_source", "/sources/s", ".brand"),
        ("list_clusters", "/map", ".map"),
        ("get_cluster", "/clusters/c", ".brand"),
    ],
)
async def test_an_outage_is_shown_and_the_page_stands(tool: str, path: str, remains: str) -> None:
    async with console_client(answer_but(tool, OUTAGE)) as client:
        page = parse_page(await client.get(path))
    assert texts(page, "[role=alert]") == [OUTAGE.message]
    assert select(page, remains)


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (OUTAGE, 503, "10"),
        (RateLimited("Rate limit reached.", retry_after=7), 429, "7"),
        (NotFound("There is no source s."), 404, None),
        (PlatformFault("get_source failed."), 500, None),
    ],
)
async def test_an_error_of_the_main_tool_is_the_status(
    error: CarrelError, status: int, retry_after: str | None
) -> None:
    async with console_client(answer_but("get_source", error)) as client:
        response = await client.get("/sources/s")
    assert response.status_code == status
    assert response.headers.get("retry-after") == retry_after
    assert texts(parse_page(response), "[role=alert]") == [error.message]


async def test_a_fault_of_the_console_reveals_nothing() -> None:
    dispatcher = FakeDispatcher(lambda *_: {"unexpected": "a private thought"})
    async with console_client(dispatcher) as client:
        response = await client.get("/clusters/c")
    assert response.status_code == 500
    [message] = texts(parse_page(response), "[role=alert]")
    assert message.startswith("Carrel has an internal error")
    assert "private" not in response.text

"""The script of the map fetches points, the hits of a search, and single passages."""

from __future__ import annotations

from typing import Any

import pytest

from functions.gateway.console import passage_map
from functions.gateway.console.passage_map import MAX_HITS
from shared.core.errors import CarrelError, RateLimited
from tests.support.console_app import make_console_client, make_result, parse_page, select
from tests.support.fake_catalog import FakeDispatcher

POINTS = {
    "clusters": [{"cluster_id": "c", "name": "Bread", "size": 2, "x": 10, "y": 20}],
    "chunk_ids": ["a", "b"],
    "x": [1, 9999],
    "y": [0, 10000],
    "cluster": [0, -1],
    "total": 2,
}


def answer_pages(count: int) -> FakeDispatcher:
    """Answer searches with pages of `count` passages in total; their ids are 0, 1, 2 ..."""

    def answer(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = make_result(tool, "text")
        start = int(arguments.get("cursor") or 0)
        end = min(start + arguments["limit"], count)
        hits = [{**result["results"][0], "chunk_id": str(index)} for index in range(start, end)]
        cursor = str(end) if end < count else None
        return {**result, "results": hits, "next_cursor": cursor, "message": None}

    return FakeDispatcher(answer)


async def test_points_are_sent_as_the_tool_returns_them() -> None:
    dispatcher = FakeDispatcher(lambda *_: POINTS)
    async with make_console_client(dispatcher) as client:
        response = await client.get("/map/points")
    assert response.json() == POINTS
    assert dispatcher.calls == [("get_map", {})]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(("encoding", "is_compressed"), [("gzip", True), ("identity", False)])
async def test_points_are_compressed_if_the_client_accepts_it(
    encoding: str, *, is_compressed: bool
) -> None:
    many_points = {**POINTS, "x": [5000] * 20_000}
    async with make_console_client(FakeDispatcher(lambda *_: many_points)) as client:
        response = await client.get("/map/points", headers={"accept-encoding": encoding})
    assert (response.headers.get("content-encoding") == "gzip") is is_compressed
    assert response.headers["vary"] == "Accept-Encoding"
    assert response.json() == many_points


@pytest.mark.parametrize(
    ("hit_count", "sent_count", "call_count", "has_more"),
    [(3, 3, 1, False), (120, 120, 3, False), (MAX_HITS, MAX_HITS, 4, False), (999, 200, 4, True)],
)
async def test_a_search_is_paged_up_to_200_hits(
    hit_count: int, sent_count: int, call_count: int, *, has_more: bool
) -> None:
    dispatcher = answer_pages(hit_count)
    async with make_console_client(dispatcher) as client:
        answer = (await client.get("/map/hits?q=bread&tag=food&tag=home")).json()

    assert answer["chunk_ids"] == [str(index) for index in range(sent_count)]
    assert answer["has_more"] is has_more
    assert len(dispatcher.calls) == call_count

    tool, arguments = dispatcher.calls[0]
    assert tool == "search_kb"
    assert arguments["query"] == "bread"
    assert arguments["filters"] == {"tags": ["food", "home"]}


@pytest.mark.parametrize(("hit_count", "has_more"), [(70, False), (71, True), (999, True)])
async def test_hits_are_cut_if_the_maximum_ends_within_a_page(
    hit_count: int, monkeypatch: pytest.MonkeyPatch, *, has_more: bool
) -> None:
    monkeypatch.setattr(passage_map, "MAX_HITS", 70)
    async with make_console_client(answer_pages(hit_count)) as client:
        answer = (await client.get("/map/hits?q=bread")).json()
    assert len(answer["chunk_ids"]) == 70
    assert answer["has_more"] is has_more


async def test_a_passage_is_its_title_and_its_beginning() -> None:
    def answer(tool: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        return {**make_result(tool, "text"), "title": "<b>Bread</b>", "content": "# Rise\n\n" * 99}

    dispatcher = FakeDispatcher(answer)
    async with make_console_client(dispatcher) as client:
        passage = (await client.get("/map/passages/c")).json()
    assert passage["title"] == "<b>Bread</b>"
    assert passage["text"].startswith("Rise Rise")
    assert len(passage["text"]) <= 280
    assert dispatcher.calls == [("get_chunk", {"chunk_id": "c", "include_related": False})]


@pytest.mark.parametrize("path", ["/map/points", "/map/hits?q=x", "/map/passages/c"])
async def test_an_error_of_a_tool_is_a_message_for_the_script(path: str) -> None:
    def answer(*_: object) -> CarrelError:
        return RateLimited("Rate limit reached. Wait 7 s.", retry_after=7)

    async with make_console_client(FakeDispatcher(answer)) as client:
        response = await client.get(path)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7"
    assert response.json()["message"].startswith("You have reached the limit")


async def test_a_fault_reveals_nothing_to_the_script() -> None:
    dispatcher = FakeDispatcher(lambda *_: {"unexpected": "a private thought"})
    async with make_console_client(dispatcher) as client:
        response = await client.get("/map/hits?q=x")
    assert response.status_code == 500
    assert response.json()["message"].startswith("Carrel has an internal error")


@pytest.mark.parametrize("path", ["/map/points", "/map/hits?q=x", "/map/passages/c"])
async def test_other_hosts_and_origins_get_no_data(path: str) -> None:
    async with make_console_client(
        FakeDispatcher(lambda tool, _: make_result(tool, "x"))
    ) as client:
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
        ):
            assert (await client.get(path, headers=headers)).status_code == status


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/?q=a+b&tag=x", "/map?q=a+b&tag=x"),
        ("/sources/s", "/map?source=text"),
        ("/clusters/c", "/map?cluster=text"),
    ],
)
async def test_a_page_leads_to_its_passages_on_the_map(path: str, link: str) -> None:
    async with make_console_client(
        FakeDispatcher(lambda tool, _: make_result(tool, "text"))
    ) as client:
        page = parse_page(await client.get(path))
    assert link in [anchor.attrib["href"] for anchor in select(page, "main a")]


async def test_the_map_keeps_filters_and_links_to_the_next_page() -> None:
    async with make_console_client(
        FakeDispatcher(lambda tool, _: make_result(tool, "text"))
    ) as client:
        page = parse_page(await client.get("/map?q=bread&cluster=text&cursor=x"))
    [form] = select(page, "form.search")

    assert form.attrib["action"] == "/map"
    assert dict(form.form_values()) == {"q": "bread", "cluster": "text"}

    [chip] = select(page, ".chip.on")
    assert chip.attrib["href"] == "/map?q=bread"
    assert select(page, "[rel=next]")[0].attrib["href"] == "/map?q=bread&cluster=text&cursor=text"

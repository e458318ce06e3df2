"""The script of the map fetches points, the hits of a search, and single passages."""

from typing import Any

import pytest

from functions.gateway.console import passage_map
from functions.gateway.console.passage_map import MAX_HITS
from shared.core.errors import RateLimited
from tests.support.console_app import (
    make_answering_client,
    make_console_client,
    make_result,
    parse_page,
    select,
)
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
    ("hits", "maximum", "calls", "has_more"),
    [
        (3, MAX_HITS, 1, False),
        (120, MAX_HITS, 3, False),
        (MAX_HITS, MAX_HITS, 4, False),
        (MAX_HITS + 1, MAX_HITS, 4, True),
        (70, 70, 2, False),  # the maximum ends within a page
        (71, 70, 2, True),
    ],
)
async def test_a_search_is_paged_up_to_200_hits(
    hits: int, maximum: int, calls: int, monkeypatch: pytest.MonkeyPatch, *, has_more: bool
) -> None:
    monkeypatch.setattr(passage_map, "MAX_HITS", maximum)
    dispatcher = answer_pages(hits)
    async with make_console_client(dispatcher) as client:
        answer = (await client.get("/map/hits?q=bread&tag=food&tag=home")).json()

    assert answer["chunk_ids"] == [str(index) for index in range(min(hits, maximum))]
    assert answer["has_more"] is has_more
    assert len(dispatcher.calls) == calls

    tool, arguments = dispatcher.calls[0]
    assert (tool, arguments["query"]) == ("search_kb", "bread")
    assert arguments["filters"] == {"tags": ["food", "home"]}


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
async def test_an_error_is_a_message_for_the_script(path: str) -> None:
    limited = RateLimited("Rate limit reached. Wait 7 s.", retry_after=7)
    async with make_console_client(FakeDispatcher(lambda *_: limited)) as client:
        response = await client.get(path)
        assert (response.status_code, response.headers["retry-after"]) == (429, "7")
        assert response.json()["message"].startswith("You have reached the limit")
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"origin": "https://evil.example"}, 403),
        ):
            assert (await client.get(path, headers=headers)).status_code == status

    fault = FakeDispatcher(lambda *_: {"unexpected": "a private thought"})
    async with make_console_client(fault) as client:
        response = await client.get("/map/hits?q=x")
    assert response.status_code == 500
    assert response.json()["message"].startswith("Carrel has an internal error")


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/?q=a+b&tag=x", "/map?q=a+b&tag=x"),
        ("/sources/s", "/map?source=text"),
        ("/clusters/c", "/map?cluster=text"),
    ],
)
async def test_a_page_leads_to_its_passages_on_the_map(path: str, link: str) -> None:
    async with make_answering_client() as client:
        page = parse_page(await client.get(path))
    assert link in [anchor.attrib["href"] for anchor in select(page, "main a")]


async def test_the_map_keeps_filters_and_links_to_the_next_page() -> None:
    async with make_answering_client() as client:
        page = parse_page(await client.get("/map?q=bread&cluster=text&cursor=x"))
    [form] = select(page, "form.search")

    assert form.attrib["action"] == "/map"
    assert dict(form.form_values()) == {"q": "bread", "cluster": "text"}

    [chip] = select(page, ".chip.on")
    assert chip.attrib["href"] == "/map?q=bread"
    assert select(page, "[rel=next]")[0].attrib["href"] == "/map?q=bread&cluster=text&cursor=text"

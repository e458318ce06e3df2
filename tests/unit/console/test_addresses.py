"""The query of a page's address is checked, and its links keep or remove single filters."""

from typing import Any

import pytest

from functions.gateway.console.search import MAX_FILTERS
from tests.support.console_app import (
    answer_with,
    make_console_client,
    make_result,
    parse_page,
    read_texts,
    select,
)
from tests.support.fake_catalog import FakeDispatcher


@pytest.mark.parametrize("page", ["/", "/map", "/map/hits"])
async def test_a_search_has_a_limited_number_of_filters(page: str) -> None:
    tags = [f"tag={number}" for number in range(MAX_FILTERS + 1)]
    dispatcher = answer_with()
    async with make_console_client(dispatcher) as client:
        assert (await client.get(f"{page}?{'&'.join(tags[1:])}")).status_code == 200
        dispatcher.calls.clear()
        response = await client.get(f"{page}?{'&'.join(tags)}")
    assert response.status_code == 400
    assert f"at most {MAX_FILTERS} filters" in response.text
    assert dispatcher.calls == []


async def test_the_last_value_of_a_filter_counts_and_has_the_only_chip() -> None:
    dispatcher = answer_with()
    async with make_console_client(dispatcher) as client:
        page = parse_page(await client.get("/?author=Ada&author=Ben&author=+&tag=A&tag=b&tag=a"))
        links = parse_page(await client.get("/sources?tag=food&author=Ida&order=title"))
    assert [link.get("href") for link in select(links, ".active a")] == [
        "/sources?author=Ida&order=title",
        "/sources?tag=food&order=title",
    ]
    [(_, arguments), *_] = dispatcher.calls
    assert arguments["filters"] == {"author": "Ben", "tags": ["a", "b"]}
    assert read_texts(page, ".active a") == [
        f"{label} \N{MULTIPLICATION SIGN}(remove)" for label in ("tag: a", "tag: b", "author: Ben")
    ]


async def test_the_chip_of_a_cluster_has_its_name_or_else_its_id() -> None:
    def answer_with_a_clustered_hit(tool: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        result = make_result(tool, "text")
        [hit] = result["results"]
        return result | {"results": [hit | {"cluster": "c-1"}], "clusters": {"c-1": "Bread"}}

    async with make_console_client(FakeDispatcher(answer_with_a_clustered_hit)) as client:
        pages = [parse_page(await client.get(f"/?cluster={name}")) for name in ("c-1", "c-2")]
    assert [read_texts(page, ".active a") for page in pages] == [
        [f"cluster: {label} \N{MULTIPLICATION SIGN}(remove)"] for label in ("Bread", "c-2")
    ]


async def test_a_chip_does_not_lead_to_too_many_filters() -> None:
    def answer_with_a_tagged_hit(tool: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        result = make_result(tool, "text")
        [hit] = result["results"]
        other_hit = hit | {"tags": ["other"], "author": "Ben", "cluster": None}
        return result | {"results": [hit, other_hit]}

    tags = [f"tag={number}" for number in range(MAX_FILTERS - 1)]
    async with make_console_client(FakeDispatcher(answer_with_a_tagged_hit)) as client:
        page = parse_page(await client.get(f"/?{'&'.join(tags)}"))
        assert select(page, "aside .chip")
        page = parse_page(await client.get(f"/?{'&'.join(tags)}&author=Ada"))
        paths = [chip.get("href") for chip in select(page, "aside .chip")]
        assert paths  # an author replaces the one there is
        assert [(await client.get(path)).status_code for path in paths] == [200] * len(paths)


async def test_a_passage_of_another_source_opens_there() -> None:
    elsewhere = FakeDispatcher(
        lambda tool, _: make_result(tool, "there" if tool == "get_chunk" else "here")
    )
    async with make_console_client(elsewhere) as client:
        response = await client.get("/sources/here?passage=there")
    assert response.status_code == 303
    assert response.headers["location"] == "/sources/there?passage=there#there"

"""Pages show whatever tools return as text: no script, no other site's address, nothing lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml.html import HtmlElement

from functions.gateway.console.markdown import get_web_address, split_matches
from tests.support.console_app import (
    PAGES,
    URL,
    assert_harmless_elements,
    make_answering_client,
    make_console_client,
    make_result,
    parse_page,
)
from tests.support.fake_catalog import FakeDispatcher
from tests.support.hostile_sources import PAYLOADS


def assert_harmless(page: HtmlElement) -> None:
    """Check that a page has only the console's elements, addresses and scripts."""
    assert_harmless_elements(page)
    scripts = list(page.iter("script"))
    assert scripts
    assert [script.text for script in scripts if script.text] == []


@pytest.mark.parametrize("path", PAGES)
async def test_no_text_of_a_tool_becomes_markup(path: str) -> None:
    for payload in PAYLOADS:
        async with make_answering_client(payload) as client:
            response = await client.get(path)
        assert response.status_code == 200
        assert "set-cookie" not in response.headers
        page = parse_page(response)
        assert_harmless(page)
        expected = " ".join(payload.replace("\0", "").split())
        assert expected in " ".join(page.text_content().replace("\ufffd", "").split())


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_no_parameter_of_the_address_becomes_markup(payload: str) -> None:
    names = (
        "q",
        "tag",
        "author",
        "category",
        "source",
        "cluster",
        "period",
        "order",
        "passage",
        "found",
    )
    async with make_answering_client("x") as client:
        for path in ("/", "/sources", "/sources/s", "/map"):
            response = await client.get(path, params=dict.fromkeys(names, payload))
            assert_harmless(parse_page(response))
            assert "location" not in response.headers


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(PAYLOADS) | st.text(max_size=5), min_size=1, max_size=4).map("".join),
    st.sampled_from(PAGES),
)
async def test_no_mixture_of_payloads_becomes_markup(text: str, path: str) -> None:
    async with make_answering_client(text) as client:
        response = await client.get(path)
    assert response.status_code == 200
    assert_harmless(parse_page(response))


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_no_result_of_a_change_becomes_markup(payload: str) -> None:
    """A result is in the notice of the change, the form that undoes it, and the edited note."""

    def answer(tool: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        result = make_result(tool, payload)
        return result | ({"category": "note"} if tool == "get_source" else {})

    fields = {"revision": "1", "text": payload, "title": payload, "chunk_id": "c"}
    async with make_console_client(FakeDispatcher(answer)) as client:
        page = parse_page(await client.get("/sources/s?passage=c"))
        assert_harmless(page)
        assert page.xpath("//textarea[@id='note-text']")
        token = page.xpath("//input[@name='form']")[0].get("value")
        for path, action in (
            ("/sources/s?passage=c", "edit_note"),
            ("/sources/s?passage=c", "edit"),
            ("/sources/s?passage=c", "note"),
            ("/sources/s", "forget"),
            ("/forgotten", "restore"),
        ):
            form = {**fields, "form": token, "action": action}
            response = await client.post(path, data=form, headers={"origin": URL})
            assert response.status_code == 200, (path, action)
            page = parse_page(response)
            assert_harmless(page)
            assert page.xpath("//*[@role='status']")


@given(st.text(), st.lists(st.text(max_size=8), max_size=5))
def test_highlighting_loses_no_character(text: str, terms: list[str]) -> None:
    assert "".join(part for part, _ in split_matches(text, terms)) == text


def test_only_whole_words_are_highlighted_in_any_case() -> None:
    parts = split_matches("Tests attest: a test's TEST.", ["test", "tests"])
    assert [part for part, is_match in parts if is_match] == ["Tests", "test", "TEST"]


@pytest.mark.parametrize(
    ("address", "is_web"),
    [
        *(("https://example.com/a?b=c#d", True), ("HTTPS://example.com", True)),
        *(("javascript:alert(1)", False), ("\tjavascript:alert(1)", False)),
        *(("https:alert(1)", False), ("//example.com", False), ("/path", False)),
        *(("http://[", False), ("", False), (None, False)),
    ],
)
def test_only_an_address_of_the_web_is_a_link(address: str | None, *, is_web: bool) -> None:
    assert (get_web_address(address) is not None) is is_web

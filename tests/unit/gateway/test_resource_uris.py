"""Resource URIs and their templates."""

from __future__ import annotations

import pytest

from functions.gateway.mcp.resource_links import expand, match, variable

BOOK = "carrel://book/{book_id}"


def test_a_template_has_one_variable() -> None:
    assert "book_id" == variable(BOOK)


def test_a_uri_leads_back_to_the_id_that_it_was_made_of() -> None:
    uri = expand(BOOK, {"book_id": "a_B-1", "title": "Other"})
    assert ("carrel://book/a_B-1", {"book_id": "a_B-1"}) == (uri, match(BOOK, uri))


def test_what_stands_after_the_variable_belongs_to_the_uri_too() -> None:
    template = "carrel://book/{book_id}/cover.json"
    assert {"book_id": "a"} == match(template, "carrel://book/a/cover.json")
    assert match(template, "carrel://book/a/coverXjson") is None


@pytest.mark.parametrize(
    "uri",
    ["", "carrel://book/", "carrel://book", "carrel://shelf/a", "carrel://book/a/b",
     "carrel://book/a?b", "carrel://book/a#b", "xcarrel://book/a", "file:///etc/passwd"],
)  # fmt: skip
def test_another_uri_matches_nothing(uri: str) -> None:
    assert match(BOOK, uri) is None

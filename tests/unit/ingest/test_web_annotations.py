"""Highlights of web pages are read from the exports of Hypothesis and Raindrop."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.knowledge.source import Locator
from tests.support.source_files import (
    read_link_lists,
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

URL = "https://example.org/knots"
TEXT = "A knot is a promise."
MOMENT = datetime(2024, 5, 31, 16, 41, tzinfo=UTC)


def make_annotation(**fields: Any) -> dict[str, Any]:
    selectors = [
        {"type": "RangeSelector", "startOffset": 3},
        {"type": "TextQuoteSelector", "exact": TEXT, "prefix": "a"},
        {"type": "PageSelector", "index": 3, "label": "4"},
        {"type": "EPUBContentSelector", "title": "Bends"},
    ]
    return {
        "id": "one",
        "created": "2024-05-31T16:41:00.000000+00:00",
        "user": "acct:ann@hypothes.is",
        "uri": URL,
        "text": "So true.",
        "tags": ["rope", "sea"],
        "target": [{"source": URL, "selector": selectors}],
        "document": {"title": ["On Knots"]},
        "links": {"incontext": "https://hyp.is/one/example.org/knots"},
        "references": [],
    } | fields


def write_annotations(folder: Path, *annotations: Any, **fields: Any) -> Path:
    export = {"export_date": "2024", "export_userid": "acct:ann@hypothes.is", **fields}
    return write_file(folder, "a.json", json.dumps(export | {"annotations": annotations}))


def test_an_annotation_is_a_passage_with_note_tags_and_links(tmp_path: Path) -> None:
    source = read_only_source(write_annotations(tmp_path, make_annotation()))
    assert (source.title, source.source_url) == ("On Knots", URL)
    assert (source.origin, source.category) == ("hypothesis", "articles")
    [section] = source.sections
    assert section.text == f"{TEXT}\n\nSo true."
    assert section.tags == ("rope", "sea")
    assert section.highlighted_at == MOMENT
    assert section.highlight_url == "https://hyp.is/one/example.org/knots"
    assert section.find_locator(0) == Locator(page=4, chapter="Bends")


def test_what_others_wrote_has_their_names(tmp_path: Path) -> None:
    bob: dict[str, Any] = {"user": "acct:bob@hypothes.is", "target": [{"source": URL}]}
    reply = make_annotation(id="two", text="Is it?", references=["one"], **bob)
    path = write_annotations(tmp_path, make_annotation(), reply)
    texts = [section.text for section in read_only_source(path).sections]
    assert texts == [f"{TEXT}\n\nSo true.", "bob: Is it?"]


@pytest.mark.parametrize("key", ["rows", None])
def test_annotations_of_several_pages_are_several_sources(tmp_path: Path, key: str | None) -> None:
    rows = [
        make_annotation(),
        make_annotation(uri="https://example.org/b", document={"title": None}),
    ]
    path = write_file(tmp_path, "a.json", json.dumps({key: rows, "total": 2} if key else rows))
    assert [source.title for source in read_sources(path)] == ["On Knots", "https://example.org/b"]


def test_an_annotation_without_text_is_counted(tmp_path: Path) -> None:
    path = write_annotations(
        tmp_path,
        make_annotation(),
        make_annotation(text="", target=[]),
        make_annotation(uri=None),
        make_annotation(created="soon"),
    )
    assert [name for name, _ in read_problems(path)] == ["a.json annotation 3"]
    assert [reason for _, reason in read_warnings(path)] == [
        "annotation 4: created: “soon” is not an ISO 8601 date such as 2024-05-31; field ignored",
        "has 1 highlight without text, such as a picture; left out",
    ]


TABLE = (
    "Creation Date,URL,Group,Annotation/Reply Type,Quote,User,{body},Tags,Page\n"
    f'2024-05-31 16:41,{URL},Public,Annotation,{TEXT},ann,"So, true.","rope,sea",4\n'
    f"2024-06-01 10:00,{URL},Public,Reply,,bob,Is it?,,\n"
)


@pytest.mark.parametrize(
    "data",
    [
        TABLE.format(body="Body").encode(),
        TABLE.format(body="Comment/Body").replace("\n", "\r\n").encode("utf-8-sig"),
        TABLE.format(body="body").replace(",Page", "").replace(",4\n", "\n").encode("utf-16"),
    ],
)
def test_a_table_of_annotations_is_read(tmp_path: Path, data: bytes) -> None:
    source = read_only_source(write_file(tmp_path, "a.csv", data))
    assert (source.title, source.source_url) == (URL, URL)
    quote, reply = source.sections
    assert (quote.text, quote.tags) == (f"{TEXT}\n\nSo, true.", ("rope", "sea"))
    assert quote.highlighted_at == MOMENT
    assert quote.find_locator(0).page in {4, None}
    assert reply.text == "Is it?"


def test_a_table_of_the_newest_client_is_read(tmp_path: Path) -> None:
    header = "Tags,Created at,Author,Page,URL,Group,Type,Quote,Comment"
    row = f"sea,2024-05-31T16:41:00Z,ann,4,{URL},Public,Annotation,{TEXT},So true."
    source = read_only_source(write_file(tmp_path, "a.csv", f"{header}\n{row}\n"))
    [section] = source.sections
    assert (source.source_url, section.text) == (URL, f"{TEXT}\n\nSo true.")
    assert (section.tags, section.highlighted_at) == (("sea",), MOMENT)
    assert section.find_locator(0) == Locator(page=4)


def test_both_exports_of_a_page_are_one_source(tmp_path: Path) -> None:
    write_annotations(tmp_path, make_annotation())
    write_file(tmp_path, "a.csv", TABLE.format(body="Body"))
    assert len({source.source_id for source in read_sources(tmp_path)}) == 1
    assert read_problems(tmp_path) == []


BOOKMARKS = (
    "id,title,note,excerpt,url,folder,tags,created,cover,highlights,favorite\n"
    f'1,On Knots,"For the talk, perhaps.",Of ropes.,{URL},Sea / Ropes,"rope, sea",'
    '2024-05-31T16:41:00.000Z,,"Highlight:A knot is\na promise.\n\nNote:So true.\n\n'
    'Highlight:Wet rope holds.",true\n'
    "2,Only a link,,,https://example.org/b,Unsorted,,1717173660,,,false\n"
    "3,Old,,,https://example.org/c,Unsorted,,1717173660,,Without a prefix,false\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_highlights_and_notes_of_bookmarks_are_read(tmp_path: Path, encoding: str) -> None:
    path = write_file(tmp_path, "export.csv", BOOKMARKS.encode(encoding))
    knots, old = read_sources(path)
    assert (knots.title, knots.source_url) == ("On Knots", URL)
    assert knots.tags == ("rope", "sea", "favorite")
    assert [section.text for section in knots.sections] == [
        "For the talk, perhaps.",
        "A knot is\na promise.\n\nSo true.",
        "Wet rope holds.",
    ]
    assert {section.saved_at for section in knots.sections} == {MOMENT}
    assert old.text == "Without a prefix"
    assert old.sections[0].saved_at == MOMENT
    [others] = read_link_lists(path)
    assert [(link.title, link.folder) for link in others.links] == [("Only a link", "Unsorted")]
    assert read_warnings(path) == []


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", '{"export_userid": "ann", "annotations": [{', "is not JSON"),
        ("a.json", '{"export_userid": "ann"}', "is not a Hypothesis export"),
        ("a.csv", TABLE.format(body="Body") + '2024,"cut', "is cut off in the row at line 4"),
        ("a.csv", BOOKMARKS + '4,"cut', "is cut off in the row at line 10"),
        ("a.csv", BOOKMARKS.replace(URL, ""), "has no url"),
    ],
)
def test_a_broken_export_is_refused_in_words(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    [(_, problem)] = read_problems(write_file(tmp_path, name, content))
    assert problem.startswith(reason)

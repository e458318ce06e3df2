"""Bookmarks and the lists of programs that save pages are read as links, by content."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.links.model import LinkState
from tests.support.source_files import (
    read_link_lists,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

URL = "https://example.org/bread"
SECONDS = 1_717_173_713
MOMENT = datetime.fromtimestamp(SECONDS, UTC)
CHROME_TIME = str((SECONDS + 11_644_473_600) * 10**6)
NETSCAPE = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<TITLE>Bookmarks</TITLE>\n<H1>Bookmarks</H1>\n"
CHROME = {
    "checksum": "0",
    "roots": {
        "bookmark_bar": {
            "name": "Bar",
            "type": "folder",
            "children": [
                {
                    "name": "Food",
                    "children": [{"name": "Bread", "url": URL, "date_added": CHROME_TIME}],
                }
            ],
        },
        "sync_transaction_version": "1",
    },
}
FIREFOX = {
    "title": "",
    "type": "text/x-moz-place-container",
    "children": [
        {
            "title": "menu",
            "type": "text/x-moz-place-container",
            "children": [
                {"title": "Recent", "uri": "place:sort=8", "type": "text/x-moz-place"},
                {
                    "title": "Bread",
                    "uri": URL,
                    "tags": "rye,sour dough",
                    "dateAdded": SECONDS * 10**6,
                    "type": "text/x-moz-place",
                },
            ],
        }
    ],
}


READER = f"""Title,URL,ID,Document tags,Saved date,Reading progress,Location,Seen
Bread,{URL},01,"['rye', 'sour, dough']",2024-05-31 16:41:53+00:00,0.4,later,True
"""
POCKET = f"""title,url,time_added,tags,status\r
Bread,{URL},{SECONDS},rye|sour dough,unread\r
"""
POCKET_PAGE = f"""<html><title>Pocket Export</title><h1>Unread</h1><ul></ul><h1>Read Archive</h1>
<ul><li><a href="{URL}" time_added="{SECONDS}" tags="rye,oven">Bread</a></li></ul>"""
INSTAPAPER = f"""URL,Title,Selection,Folder,Timestamp,Tags
{URL},"Bread",,Food,{SECONDS},"[""rye""]"
"""
INSTAPAPER_PAGE = f"""<title>Instapaper: Export</title><h1>Food</h1>
<ol><li><a href="{URL}">Bread</a></ol>"""
MATTER = f"""Title,Author,URL,Tags,Word Count,In Queue,Favorited
Bread,,{URL},rye,9,True,
"""
BOOKMARKS = f"""{NETSCAPE}<DL><p>
<DT><H3>Food</H3>
<DD>To cook
<DL><p>
<DT><H3>Rye</H3><DL><p></DL><p>
<DT><A HREF="{URL}" ADD_DATE="{SECONDS}" TAGS="rye">Bread</A>
</DL><p>
</DL><p>
"""
OMNIVORE = {
    "slug": "a",
    "title": "Bread",
    "description": "Rye.",
    "url": URL,
    "readingProgress": 1,
    "labels": ["rye"],
    "savedAt": MOMENT.isoformat(),
}
WALLABAG = {
    "is_archived": 0,
    "title": "Bread",
    "url": URL,
    "tags": ["rye"],
    "reading_time": 1,
    "created_at": "2024-05-31T18:41:53+0200",
}
PINBOARD = {
    "href": URL,
    "description": "Bread",
    "extended": "",
    "tags": "rye oven",
    "time": "2024-05-31T16:41:53Z",
    "toread": "no",
}
LINKWARDEN = {"name": "Bread", "url": URL, "tags": [{"name": "rye"}]}
KARAKEEP = {
    "createdAt": SECONDS,
    "title": "Bread",
    "tags": ["rye"],
    "note": None,
    "content": {"type": "link", "url": URL},
}


@pytest.mark.parametrize(
    ("name", "content", "folder", "tags"),
    [
        ("Readwise Reader", READER, "later", ("rye", "sour, dough")),
        ("Pocket", POCKET, "unread", ("rye", "sour dough")),
        ("Pocket", POCKET_PAGE, "Read Archive", ("rye", "oven")),
        ("Instapaper", INSTAPAPER, "Food", ("rye",)),
        ("Instapaper", INSTAPAPER_PAGE, "Food", ()),
        ("Matter", MATTER, None, ("rye",)),
        ("a browser", CHROME, "Bar/Food", ()),
        ("a browser", FIREFOX, "menu", ("rye", "sour dough")),
        ("a browser", BOOKMARKS, "Food", ("rye",)),
        ("Omnivore", [OMNIVORE], None, ("rye",)),
        ("wallabag", [WALLABAG], None, ("rye",)),
        ("Pinboard", [PINBOARD], None, ("rye", "oven")),
        (
            "Linkwarden",
            {"collections": [{"name": "Food", "links": [LINKWARDEN]}]},
            "Food",
            ("rye",),
        ),
        ("Karakeep", {"bookmarks": [KARAKEEP]}, None, ("rye",)),
    ],
)
def test_each_list_gives_links(
    tmp_path: Path, name: str, content: Any, folder: str | None, tags: tuple[str, ...]
) -> None:
    if not isinstance(content, str):
        path = write_file(tmp_path, "list.json", json.dumps(content))
    else:
        path = write_file(tmp_path, f"list.{'html' if '<' in content else 'csv'}", content)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    [links] = read_link_lists(path)
    [link] = links.links
    assert (links.name, link.url, link.title) == (name, URL, "Bread")
    assert (link.folder, link.tags) == (folder, tags)
    is_dated = name not in {"Matter", "Linkwarden"} and "<ol>" not in content
    assert link.saved_at == (MOMENT if is_dated else None)
    assert link.state is LinkState.LISTED
    assert read_sources(path) == []
    assert read_problems(path) == []


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", INSTAPAPER.replace(",,Food", ",Knead it.,Food"), "Knead it."),
        ("a.json", json.dumps([{**PINBOARD, "extended": "For Sunday."}]), "For Sunday."),
        ("a.json", json.dumps({"bookmarks": [{**KARAKEEP, "note": "Try."}]}), "Try."),
        ("a.html", BOOKMARKS.replace("Bread</A>", "Bread</A>\n<DD>Rye &amp; salt"), "Rye & salt"),
    ],
)
def test_a_note_on_a_link_is_a_passage(tmp_path: Path, name: str, content: str, text: str) -> None:
    path = write_file(tmp_path, name, content)
    [source] = read_sources(path)
    assert [(section.text, section.saved_at) for section in source.sections] == [(text, MOMENT)]
    assert (source.title, source.source_url, source.adds_only) == ("Bread", URL, True)
    assert "rye" in source.tags
    assert [link.url for links in read_link_lists(path) for link in links.links] == [URL]


def test_a_text_without_a_link_is_a_passage(tmp_path: Path) -> None:
    texts = [{**KARAKEEP, "content": {"type": "text", "text": text}} for text in ("One", "Two")]
    path = write_file(tmp_path, "a.json", json.dumps({"bookmarks": [KARAKEEP, *texts]}))
    sources = read_sources(path)
    assert [source.sections[0].text for source in sources] == ["One", "Two"]
    assert len({source.source_id for source in sources}) == 2
    assert read_warnings(path) == []


def test_articles_in_a_list_are_counted(tmp_path: Path) -> None:
    """A long first article does not hide what the file is."""
    article = {"is_archived": 0, "is_starred": 0, "url": URL, "content": "Rye. " * 20_000}
    path = write_file(tmp_path, "a.json", json.dumps([{**article, "reading_time": 9}]))
    assert len(read_link_lists(path)[0].links) == 1
    [(_, warning)] = read_warnings(path)
    assert warning == "has 1 link with an article or annotations, which are not read"


@pytest.mark.parametrize(
    ("name", "content"), [("Bookmarks", json.dumps(CHROME)), ("bookmarks.txt", BOOKMARKS)]
)
def test_bookmarks_are_known_by_content(tmp_path: Path, name: str, content: str) -> None:
    write_file(tmp_path, name, content)
    write_file(tmp_path, "below/bookmarks", "file:///home")
    [links] = read_link_lists(tmp_path)
    assert [link.url for link in links.links] == [URL]
    assert read_sources(tmp_path) == []
    [problem] = read_problems(tmp_path)
    assert problem == ("below/bookmarks", "is no list of links that Carrel can read")


@pytest.mark.parametrize("date", [SECONDS, SECONDS * 1_000, SECONDS * 10**6, CHROME_TIME])
def test_dates_may_be_in_any_unit(tmp_path: Path, date: int | str) -> None:
    page = f'{NETSCAPE}<DL><DT><A HREF="{URL}" ADD_DATE="{date}">Bread</A></DL>'
    [links] = read_link_lists(write_file(tmp_path, "a.html", page))
    assert [link.saved_at for link in links.links] == [MOMENT]


def test_what_is_no_new_web_page_is_counted(tmp_path: Path) -> None:
    addresses = [
        *("javascript:alert(1)", "place:sort=8", "chrome://settings", "about:blank", ""),
        *(
            "file:///etc/passwd",
            "http://192.168.0.1/",
            "http://localhost:8080",
            "https://a:b@e.org",
        ),
        *(f"{URL}?utm_source=x", f"{URL}?fbclid=7&utm_medium=y", URL, f"{URL}#top"),
    ]
    rows = "".join(f'"two\nlines",{address},soon,,\n' for address in addresses)
    path = write_file(tmp_path, "a.csv", f"title,url,time_added,tags,status\n{rows}")
    [links] = read_link_lists(path)
    assert [link.title for link in links.links] == ["two lines"]
    assert [reason for _, reason in read_warnings(path)] == [
        "has 9 links outside the public web; left out",
        "repeats 3 links; listed once",
        "has 13 links with an invalid field; field ignored",
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", f'title,url,time_added,tags,status\nBread,{URL},1,,\n"cut', "is cut off in the"),
        ("a.json", json.dumps(CHROME)[:-9], "is not JSON"),
    ],
)
def test_a_truncated_list_is_refused(tmp_path: Path, name: str, content: str, reason: str) -> None:
    [(_, problem)] = read_problems(write_file(tmp_path, name, content))
    assert problem.startswith(reason)


def test_a_truncated_page_is_read_with_a_warning(tmp_path: Path) -> None:
    page = f'{NETSCAPE}<DL><DL></DL>\n<DT><A HREF="{URL}">Bread</A>\n<DT><A HREF="https://exa'
    [links] = read_link_lists(write_file(tmp_path, "a.html", page))
    assert [link.url for link in links.links] == [URL]
    assert links.warnings[0].startswith("seems to be cut off")


@pytest.mark.parametrize("noise", ["<a ", '<a href="', "<!--", "<", "&", "<dl>", "<a x='\""])
def test_a_damaged_page_takes_no_longer_than_a_whole_one(tmp_path: Path, noise: str) -> None:
    page = f'{NETSCAPE}<DL><A HREF="{URL}">Bread</A>{noise * 100_000}'
    [links] = read_link_lists(write_file(tmp_path, "a.html", page))
    assert [link.url for link in links.links][:1] == [URL]


def test_an_invalid_field_loses_only_itself(tmp_path: Path) -> None:
    node = {"name": ["no"], "url": {"no": 1}, "uri": URL, "date_added": "soon", "tags": 7}
    path = write_file(tmp_path, "a.json", json.dumps({"roots": {"bookmark_bar": [node]}}))
    [links] = read_link_lists(path)
    assert [(link.url, link.title, link.tags) for link in links.links] == [(URL, None, ())]
    assert links.warnings == ("has 1 link with an invalid field; field ignored",)


@pytest.mark.parametrize(
    ("folder", "tag", "matches"),
    [
        (None, None, True),
        ("food", "RYE", True),
        ("Bar/Food", None, True),
        ("Bar/", None, True),
        ("Foo", None, False),
        (None, "oven", False),
    ],
)
def test_links_are_selected_by_folder_and_tag(
    tmp_path: Path, folder: str | None, tag: str | None, *, matches: bool
) -> None:
    page = (
        f"{NETSCAPE}<DL><DT><H3>Bar</H3><DL><DT><H3>Food</H3><DL>"
        f'<DT><A HREF="{URL}" TAGS="rye">Bread</A></DL></DL></DL>'
    )
    [links] = read_link_lists(write_file(tmp_path, "a.html", page))
    assert links.links[0].matches(folder, tag) is matches

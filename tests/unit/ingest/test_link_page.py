"""A page on the web becomes a source, with the reader of its kind."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from functions.jobs.ingest.links.page import FETCH_RULES, fetch_source
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.core.public_url import PublicUrl
from shared.core.safe_fetch import SafeFetch
from shared.knowledge.source import Source
from shared.links.model import Link, derive_link_source_id
from tests.support.links import ESSAY, SITE_URL, make_link_fetcher, make_text_page, serve_site
from tests.support.public_web_server import HOST, Page, PublicWebServer

NOW = datetime(2026, 11, 24, 16, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[PublicWebServer]:
    """A site with an essay."""
    with serve_site(essay=make_text_page(ESSAY)) as site:
        yield site


def make_link(url: str, *, title: str | None = None, tags: tuple[str, ...] = ()) -> Link:
    address = PublicUrl.of_link(url)
    return Link(
        source_id=derive_link_source_id(address),
        url=address.text,
        saved_by="ed",
        requested_at=NOW,
        title=title,
        tags=tags,
    )


async def fetch(server: PublicWebServer, path: str = "essay") -> Source:
    """Fetch a page of the site as the ingest job does."""
    return await fetch_source(make_link(f"{SITE_URL}/{path}"), make_link_fetcher(server))


async def get_refusal(server: PublicWebServer, path: str) -> str:
    """Return the reason why a page is refused."""
    with pytest.raises(Unreadable) as error:
        await fetch(server, path)
    return str(error.value)


@pytest.mark.parametrize("path", ["essay", "old"])
async def test_a_page_becomes_an_article(server: PublicWebServer, path: str) -> None:
    """Its URL is the one after redirects, and its id that of the link."""
    server.pages["/old"] = Page(status=301, headers={"Location": f"{SITE_URL}/essay"})
    source = await fetch(server, path)
    assert (source.title, source.text) == ("On Reefing", ESSAY)
    assert (source.category, source.origin) == ("articles", "link")
    assert source.source_url == f"{SITE_URL}/essay"
    assert source.source_id == derive_link_source_id(PublicUrl.of_link(f"{SITE_URL}/{path}"))


@pytest.mark.parametrize(
    ("canonical", "expected"),
    [
        (f"{SITE_URL}/canonical#part", f"{SITE_URL}/canonical"),
        ("https://other.example/essay", f"{SITE_URL}/essay"),
        ("javascript:alert(1)", f"{SITE_URL}/essay"),
    ],
)
async def test_a_canonical_url_counts_only_on_the_pages_own_host(
    server: PublicWebServer, canonical: str, expected: str
) -> None:
    server.pages["/essay"] = make_text_page(f'---\nurl: "{canonical}"\n---\n{ESSAY}')
    assert (await fetch(server)).source_url == expected


async def test_title_and_tags_of_a_link_override_those_of_the_page(server: PublicWebServer) -> None:
    server.pages["/essay"] = make_text_page(f"---\ntags: [sea]\n---\n{ESSAY}")
    link = make_link(f"{SITE_URL}/essay", title="Reefs", tags=("read", "sea"))
    source = await fetch_source(link, make_link_fetcher(server))
    assert source.title == "On Reefing"
    assert source.overrides == {"title": "Reefs", "tags": ("read", "sea")}


@pytest.mark.parametrize(
    ("path", "kind", "title", "tags"),
    [
        ("notes.md", "text/plain", "notes", ("sea",)),
        ("notes.md?raw=1", "application/octet-stream", "notes", ("sea",)),
        ("notes", "text/markdown", "notes", ("sea",)),
        ("notes.txt", "text/plain; charset=utf-8", "notes", ()),
        ("my%20notes", "text/plain", "my notes", ()),
        ("", "text/plain", HOST, ()),
        ("index.php?id=7", "text/plain", "index", ()),
        ("clippings.jsonl", "text/plain", "clippings", ()),
    ],
)
async def test_media_type_and_suffix_decide_how_a_page_is_read(
    server: PublicWebServer, path: str, kind: str, title: str, tags: tuple[str, ...]
) -> None:
    server.pages[f"/{path}"] = make_text_page("Reef early. #sea", kind)
    source = await fetch(server, path)
    assert source.title == title
    assert source.tags == tags


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("export.json", "application/octet-stream"),
        ("export.jsonl", "application/octet-stream"),
        ("picture", "application/octet-stream"),
        ("picture.png", "image/png"),
        ("data", "application/json"),
    ],
)
async def test_other_media_types_are_refused(server: PublicWebServer, path: str, kind: str) -> None:
    """An export has ids of its own, and could replace other sources."""
    server.pages[f"/{path}"] = make_text_page("{}", kind)
    assert "is in a format that is not read" in await get_refusal(server, path)


@pytest.mark.parametrize("charset", ["iso-8859-1", '"windows-1252"', "utf-16"])
async def test_the_charset_of_the_header_is_used(server: PublicWebServer, charset: str) -> None:
    body = "Čaj" if charset == "utf-16" else "Café"
    content = body.encode(charset.strip('"'))
    kind = f"text/plain; charset={charset}"
    server.pages["/cafe"] = Page(content, headers={"Content-Type": kind})
    assert (await fetch(server, "cafe")).text == body


@pytest.mark.parametrize("declared", ["iso-8859-1", "utf-8"])
async def test_the_charset_of_the_header_overrides_that_of_the_page(
    server: PublicWebServer, declared: str
) -> None:
    text = "“Größe” is what the sea has, " * 9
    html = f"<html><head><meta charset={declared}></head><body><p>{text}</p></body></html>"
    kind = "text/html; charset=ISO-8859-1"
    server.pages["/size"] = Page(html.encode("windows-1252"), headers={"Content-Type": kind})
    assert (await fetch(server, "size")).text == text.strip()


@pytest.mark.parametrize("charset", ["unicode_escape", "zlib_codec", "utf-8", "nonsense"])
async def test_unknown_charsets_of_the_header_are_ignored(
    server: PublicWebServer, charset: str
) -> None:
    server.pages["/tea"] = make_text_page("\\u0041 Čaj", f"text/plain; charset={charset}")
    assert (await fetch(server, "tea")).text == "\\u0041 Čaj"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (make_text_page("", status=404), "its server answers 404"),
        (make_text_page("", status=503), "its server answers 503"),
        (make_text_page(" \n"), "has no text"),
        (Page(status=302, headers={"Location": "http://169.254.169.254/"}), "is not the address"),
        (Page(status=302, headers={"Location": "/loop"}), "redirects more than 5 times"),
        (Page(b"x", headers={"Content-Type": "text/plain", "Content-Encoding": "br"}), "encoding"),
    ],
)
async def test_a_page_that_cannot_be_read_is_refused_with_a_reason(
    server: PublicWebServer, page: Page, reason: str
) -> None:
    server.pages["/loop"] = page
    assert reason in await get_refusal(server, "loop")


async def test_a_page_larger_than_10_mb_is_refused(server: PublicWebServer) -> None:
    server.pages["/long"] = Page(
        b"word " * 20_000, headers={"Content-Type": "text/plain"}, is_endless=True
    )
    assert "larger than 10 MB" in await get_refusal(server, "long")


async def test_a_page_on_this_machine_is_not_fetched(server: PublicWebServer) -> None:
    """Without the resolver of tests, a host that the tests serve here does not exist."""
    link = make_link(f"{SITE_URL}/essay")
    with pytest.raises(Unreadable, match="host that does not exist"):
        await fetch_source(link, SafeFetch(FETCH_RULES))
    assert server.requests == []


def test_spellings_of_one_address_are_one_source() -> None:
    spellings = [
        ("/a", ":80/a#part", "/a?utm_source=x&utm_medium=y"),
        ("/a?b=1", "/a?b=1&fbclid=z", "/a?utm_source=x&b=1"),
        ("/a?b=2",),
        ("/b",),
    ]
    ids = [
        {derive_link_source_id(PublicUrl.of_link(f"{SITE_URL}{path}")) for path in paths}
        for paths in spellings
    ]
    assert [len(same) for same in ids] == [1] * len(ids)
    secure = {derive_link_source_id(PublicUrl.of_link(f"https://{HOST}/a"))}
    assert len(set.union(*ids, secure)) == len(ids) + 1

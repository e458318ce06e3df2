"""The console's pages show sources, passages and errors, here on a laptop without sign-in.

The console is the gateway's website. A chip is a link that filters a search, and shows a count.
"""

from pathlib import Path

import httpx2
import pytest
from lxml.html import HtmlElement

from tests.support.console_app import parse_page, read_text, read_texts, select
from tests.support.console_person import Person
from tests.support.gateway_process import (
    ALLOWED_ORIGIN,
    INLINE_MAIN,
    PRIVATE_WORD,
    FilledProject,
    RunningGateway,
    run_gateway,
)

MAX_PAGE_BYTES = 60_000
"""The limit of a page with its scripts and styles, as transferred."""
PATHS = (
    *("/", "/?q=bread", "/sources", "/sources?q=bread", "/sources/baking", "/map"),
    *("/forgotten", "/changes", "/add", "/connect", "/export"),
)


def get(gateway: RunningGateway, path: str, **headers: str) -> httpx2.Response:
    """Request a page, whatever the status."""
    return httpx2.get(gateway.url + path, headers=headers, timeout=60)


def get_page(gateway: RunningGateway, path: str) -> HtmlElement:
    """Request a page that must exist; return its parsed HTML."""
    response = get(gateway, path)
    assert response.status_code == 200, response.text
    return parse_page(response)


def test_home_shows_a_search_box_counts_and_recent_sources(inline: RunningGateway) -> None:
    page = get_page(inline, "/")
    [box] = select(page, "input[type=search]")
    assert "autofocus" in box.attrib
    assert "4 sources" in read_text(page)
    assert "7 passages" in read_text(page)
    assert "Bread at Home" in read_texts(page, ".rows [data-hit]")
    assert "food 3" in read_texts(page, ".chip")


def test_home_shows_passages_to_read_again(inline: RunningGateway) -> None:
    """An answer hides the text, and another answer of the day replaces it."""
    person = Person(inline.url).open("/")
    assert len(person.select("#review")) == 1
    passage = person.select(".hit")[0].get("id")
    text = person.texts(".hit .text")[0]
    [form, *_] = person.select(f"#{passage} form")
    fields = dict(form.form_values()) | {"answer": "not_soon"}
    person.follow(person.http.post("/review", data=fields, headers={"origin": inline.url}))
    assert text not in person.texts(".hit .text")
    assert "not soon, comes back on" in person.texts(f"#{passage}")[0]
    person.follow(
        person.http.post(
            "/review",
            data={**fields, "idempotency_key": "2", "answer": "keep"},
            headers={"origin": inline.url},
        )
    )
    assert "kept, comes back on" in person.texts(f"#{passage}")[0]
    assert "The passage comes back on" in person.texts(".notice")[0]
    note = person.select(f"#{passage} textarea")[0].getparent()
    assert note.get("action").startswith("/review#")


def test_hits_show_words_and_why_they_were_found(inline: RunningGateway) -> None:
    page = get_page(inline, "/?q=sourdough+starter")
    hit = select(page, ".hit")[0]
    assert read_texts(hit, "mark") == ["sourdough", "starter"]
    assert "Found by meaning and words" in read_text(hit)
    assert "Ida Loaf" in read_text(hit)
    assert select(hit, "[data-hit]")[0].attrib["href"].startswith("/sources/baking?passage=")
    [receipt] = read_texts(page, ".receipt .facts")
    assert receipt.startswith("Answered in ")
    assert receipt.endswith("documents read")
    assert select(page, "input[type=search]")[0].attrib["value"] == "sourdough starter"


def test_a_query_that_is_too_long_says_the_limit(inline: RunningGateway) -> None:
    query = "x" * 2_001  # too long by one
    response = get(inline, f"/?q={query}")
    page = parse_page(response)
    assert response.status_code == 400
    assert read_texts(page, "[role=alert]") == ["The query should have at most 2000 characters."]
    assert select(page, "input[type=search]")[0].attrib["value"] == query
    hits = get(inline, f"/map/hits?q={query}").json()
    assert hits == {"message": "The query should have at most 2000 characters."}


def test_a_hit_opens_the_reader_at_its_passage(inline: RunningGateway) -> None:
    [link, *_] = select(get_page(inline, "/?q=sourdough+starter"), "[data-hit]")
    path, _, chunk_id = link.attrib["href"].partition("#")
    page = get_page(inline, path)
    [passage] = select(page, ".passage.open")
    assert passage.attrib["id"] == chunk_id
    assert "A sourdough starter needs flour" in read_text(passage)
    assert len(select(page, ".passage")) == 3
    assert len(select(page, "#related .row")) > 0
    origins = [link.attrib["href"] for link in select(page, "a.origin")]
    assert origins[:2] == ["https://example.com/bread", "https://readwise.io/bookreview/1"]
    assert "https://example.com/bread#11" in origins


def test_a_passage_leads_to_its_source(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    chunk = filled_project.chunks[0]
    response = get(inline, f"/passages/{chunk.chunk_id}")
    assert response.status_code == 303
    location = f"/sources/{chunk.source_id}?passage={chunk.chunk_id}#{chunk.chunk_id}"
    assert response.headers["location"] == location


def test_a_chip_filters_a_search_and_can_be_removed(inline: RunningGateway) -> None:
    page = get_page(inline, "/?q=warm")
    chips = {read_text(chip): chip.attrib["href"] for chip in select(page, ".chip")}
    [path] = [path for label, path in chips.items() if label.startswith("Ida Loaf")]
    filtered_page = get_page(inline, path)
    hits = select(filtered_page, ".hit")
    assert hits
    assert all(read_text(hit).startswith("Ida Loaf") for hit in hits)
    [active_chip] = select(filtered_page, ".chip.on")
    assert read_text(active_chip) == "author: Ida Loaf \N{MULTIPLICATION SIGN}(remove)"
    assert active_chip.attrib["href"] == "/?q=warm"
    [hidden_field] = select(filtered_page, "input[type=hidden]")
    assert hidden_field.name == "author"
    assert hidden_field.value == "Ida Loaf"


def test_a_period_narrows_a_search_and_home(inline: RunningGateway) -> None:
    home = get_page(inline, "/")
    labels = ["This week", "Last month", "A year ago"]
    assert read_texts(home, "[aria-label=Time] .chip") == labels
    [last_month] = [
        chip.attrib["href"] for chip in select(home, ".chip") if read_text(chip) == "Last month"
    ]
    page = get_page(inline, f"{last_month}&q=bread")
    assert read_texts(page, ".chip.on") == ["last month \N{MULTIPLICATION SIGN}(remove)"]
    assert read_texts(page, "[aria-label=Time] .chip") == ["This week", "A year ago"]
    [hidden_field] = select(page, ".search input[type=hidden]")
    assert (hidden_field.name, hidden_field.value) == ("period", "last_month")


def test_the_best_passages_are_sorted_by_date(inline: RunningGateway) -> None:
    page = get_page(inline, "/?q=bread")
    assert read_texts(page, ".switch [aria-current]") == ["Best first"]
    newest = next(link for link in select(page, ".switch a") if read_text(link) == "Newest first")
    page = get_page(inline, newest.attrib["href"])
    days = read_texts(page, ".hit time")
    assert days
    assert days == sorted(days, reverse=True)
    assert get(inline, "/?q=bread&order=x").status_code == 400


def test_chips_say_what_they_count(inline: RunningGateway) -> None:
    home = get_page(inline, "/")
    assert "Numbers count passages." in read_texts(home, "aside p")
    [food_chip] = [chip for chip in select(home, ".chip") if read_text(chip) == "food 3"]
    assert len(select(get_page(inline, food_chip.attrib["href"]), ".hit")) == 3

    results = get_page(inline, "/?q=warm")
    hit_count = len(select(results, ".hit"))
    assert f"Numbers count the {hit_count} passages on this page." in read_texts(results, "aside p")
    counts = dict(text.rsplit(" ", 1) for text in read_texts(results, ".chip"))
    lines = [line for line in read_texts(results, ".hit p") if line.startswith("Ida Loaf")]
    assert int(counts["Ida Loaf"]) == len(lines)


def test_filters_without_words_list_passages_by_date(inline: RunningGateway) -> None:
    page = get_page(inline, "/?tag=food")
    assert len(select(page, ".hit")) == 3
    assert select(page, ".hit mark") == []


def test_a_search_without_a_good_match_says_so(inline: RunningGateway) -> None:
    page = get_page(inline, "/?q=quarterly+tax+return+of+a+zoo")
    [notice] = read_texts(page, ".notice")
    assert notice.startswith("Nothing here matches strongly.")
    assert "Found by words" not in read_text(page)


def test_sources_are_listed_by_title_and_author(inline: RunningGateway) -> None:
    page = get_page(inline, "/sources?order=title&author=Ida+Loaf")
    assert read_texts(page, "[data-hit]") == ["Bread at Home"]
    assert read_texts(page, ".chip.on") == ["author: Ida Loaf \N{MULTIPLICATION SIGN}(remove)"]


def test_a_search_lists_each_source_once(inline: RunningGateway) -> None:
    page = get_page(inline, "/sources?q=sourdough+starter&category=books")
    assert read_texts(page, ".hit h2").count("Bread at Home") == 1
    assert read_texts(page, ".chip.on") == ["category: books \N{MULTIPLICATION SIGN}(remove)"]
    assert read_texts(page, ".switch") == []


def test_chips_filter_the_list_of_sources(inline: RunningGateway) -> None:
    page = get_page(inline, "/sources?order=title")
    [chip] = [chip for chip in select(page, ".chip") if read_text(chip) == "food 3"]
    assert chip.attrib["href"] == "/sources?tag=food&order=title"
    assert read_texts(get_page(inline, chip.attrib["href"]), "[data-hit]") == ["Bread at Home"]


def test_the_map_page_without_clusters_says_so(inline: RunningGateway) -> None:
    page = get_page(inline, "/map")
    assert select(page, "table") == []
    assert "There are no clusters yet" in read_text(page)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_small_and_loads_nothing_from_other_hosts(
    inline: RunningGateway, path: str
) -> None:
    response = get(inline, path)
    page = parse_page(response)
    elements = [*select(page, "link"), *select(page, "script")]
    addresses = [element.attrib.get("src") or element.attrib["href"] for element in elements]
    assert all(address.startswith("/static/") for address in addresses)
    files = [get(inline, address) for address in addresses]
    assert {file.status_code for file in files} == {200}
    assert sum(file.num_bytes_downloaded for file in [response, *files]) < MAX_PAGE_BYTES
    assert all("immutable" in file.headers["cache-control"] for file in files)


@pytest.mark.parametrize("query", ["", "?v=0123456789ab"])
def test_a_file_of_another_version_is_not_cached(inline: RunningGateway, query: str) -> None:
    file = get(inline, f"/static/console.css{query}")
    assert (file.status_code, file.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize("path", [*PATHS, "/sources/unknown", "/sources/a/b", "/static/nothing"])
def test_pages_forbid_caching_framing_and_foreign_scripts(
    inline: RunningGateway, path: str
) -> None:
    headers = get(inline, path).headers
    assert headers["cache-control"] == "no-store"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/sources/unknown", 404, "There is nothing at this address"),
        ("/sources/a%2Fb", 404, "There is no such page"),
        ("/sources/%00", 400, "The address is not complete"),
        ("/passages/unknown", 404, "There is nothing at this address"),
        ("/clusters/unknown", 404, "There is nothing at this address"),
        ("/map?cursor=x", 400, "Open the list at its beginning"),
        ("/?q=x&period=x", 400, "The period should be 'today'"),
        ("/sources?order=x", 400, "The order should be 'recent' or 'title'"),
    ],
)
def test_an_error_is_a_page_that_says_what_is_wrong(
    inline: RunningGateway, path: str, status: int, text: str
) -> None:
    response = get(inline, path)
    assert response.status_code == status
    page = parse_page(response)
    assert text in " ".join(read_texts(page, "[role=alert]"))
    assert select(page, "header .brand")
    assert select(page, "input[type=search]")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": ALLOWED_ORIGIN}, 403),
        ({"x-forwarded-for": "203.0.113.7"}, 401),
    ],
)
def test_other_hosts_origins_and_proxies_are_rejected(
    inline: RunningGateway, path: str, headers: dict[str, str], status: int
) -> None:
    response = get(inline, path, **headers)
    assert response.status_code == status
    assert "Bread" not in response.text


def test_a_post_to_the_root_path_names_the_mcp_endpoint(inline: RunningGateway) -> None:
    response = httpx2.post(f"{inline.url}/", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert response.status_code == 404
    assert "ends with /mcp" in response.json()["error"]["message"]
    assert httpx2.head(f"{inline.url}/").status_code == 200


def test_pages_leave_no_private_text_in_the_log(inline: RunningGateway) -> None:
    size_before = inline.log.stat().st_size
    get(inline, f"/?q={PRIVATE_WORD}&tag={PRIVATE_WORD}")
    get(inline, f"/sources/source-{PRIVATE_WORD}")
    logged = inline.log.read_bytes()[size_before:].decode()
    assert "search_kb" in logged
    assert PRIVATE_WORD not in logged


def test_the_console_can_be_switched_off(filled_project: FilledProject, log: Path) -> None:
    environment = {**filled_project.environment, "CONSOLE": "false"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        page = get(gateway, "/", accept="text/html")
        assert page.status_code == 404
        assert "ends with /mcp" in page.text
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert get(gateway, "/static/console.js").status_code == 404


def test_a_deployed_gateway_shows_which_tools_it_reaches(small_functions: RunningGateway) -> None:
    """Its bundle has the templates, and two tools are deployed: search_kb and get_chunk."""
    page = get_page(small_functions, "/?q=sourdough+starter")
    assert "Bread at Home" in read_texts(page, ".hit h2")
    home = get_page(small_functions, "/")
    assert select(home, "input[type=search]")
    assert len(select(home, "[role=alert]")) == 1
    response = get(small_functions, "/sources/baking")
    assert response.status_code == 500
    assert "Something went wrong" in read_text(parse_page(response))

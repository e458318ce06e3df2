"""The Markdown that Readwise exports, also into a vault, becomes a passage a highlight."""

from pathlib import Path

import pytest

from shared.knowledge.source import Locator, Source
from tests.support.source_files import read_only_source, read_sources, write_file

HEADER = "# Engines\n\n## Metadata\n- Full Title: Engines\n\n## Highlights\n"


def read_note(folder: Path, content: str) -> Source:
    return read_only_source(write_file(folder, "Engines.md", content))


def get_texts(source: Source) -> list[str]:
    return [section.text for section in source.sections]


def test_a_note_of_the_plugin_becomes_a_passage_a_highlight(tmp_path: Path) -> None:
    content = (
        "# Small Engines\n\n![rw-book-cover](https://example.com/cover.png)\n\n## Metadata\n"
        "- Author: [[Mira Vogt]] and [[Ole Brandt]]\n"
        "- Full Title: Small Engines: Why They Last\n"
        "- Category: #articles\n- Summary: They are not hurried.\n"
        "- Document Tags:  [[[engines](https://example.com/x)]] [[old things]] \n"
        "- URL: https://example.org/engines_(small)\n- Published: 2020\n\n"
        "## Full Document\n[[Full Document Contents/Articles/Small Engines.md|See it →]]\n\n"
        "## Highlights\n"
        "- Nobody expects it\n\n  to hurry. ([View Highlight](https://read.readwise.io/read/01a))\n"
        "- Oil is cheaper than [regret](https://example.org/r). "
        "([[View Highlight](https://read.readwise.io/read/01d)](https://read.readwise.io/read/01d))"
        "\n    - Tags: [[maintenance]] [[favorite]] \n    - Note: Print this,\n      twice.\n"
        "## New highlights added May 31, 2024 at 4:41 PM\n"
        "- Cold starts do damage. ([View Highlight](https://read.readwise.io/read/01e)) ^rw1\n\n"
        "## My thoughts\n- Ask [[Ann]].\n"
    )
    write_file(tmp_path, ".obsidian/app.json", "{}")
    write_file(tmp_path, "Mira Vogt.md", "An engineer.")
    write_file(tmp_path, "Readwise/Small Engines.md", content)
    engineer, source = read_sources(tmp_path)
    assert (source.title, source.author) == (
        "Small Engines: Why They Last",
        "Mira Vogt and Ole Brandt",
    )
    assert (source.origin, source.category) == ("readwise", "articles")
    assert source.tags == ("engines", "old things")
    assert source.source_url == "https://example.org/engines_(small)"
    assert source.links_to == (engineer.source_id,)
    assert [(section.text, section.tags, section.highlight_url) for section in source.sections] == [
        ("They are not hurried.", ("summary",), None),
        ("- Published: 2020", (), None),
        ("Nobody expects it\n\n  to hurry.", (), "https://read.readwise.io/read/01a"),
        (
            "Oil is cheaper than [regret](https://example.org/r).\n\nPrint this,\ntwice.",
            ("maintenance", "favorite"),
            "https://read.readwise.io/read/01d",
        ),
        ("Cold starts do damage.", (), "https://read.readwise.io/read/01e"),
        ("## My thoughts\n- Ask Ann.", (), None),
    ]


def test_copies_of_a_highlight_are_one_passage(tmp_path: Path) -> None:
    content = (
        HEADER + "- Oil. ([View Highlight](https://r.io/1))\n"
        "- Oil. ([View Highlight](https://r.io/2))\n    - Tags: [[a]]\n    - Note: Mine.\n"
        "- Water.\n"
        "- Oil. ([View Highlight](https://r.io/3))\n    - Tags: #a #[[b]]\n    - Note: Mine.\n"
    )
    source = read_note(tmp_path, content)
    assert get_texts(source) == ["Oil.\n\nMine.", "Water."]
    assert source.sections[0].tags == ("a", "b")
    assert source.sections[0].highlight_url == "https://r.io/1"


@pytest.mark.parametrize(
    ("place", "locator"),
    [
        (
            "([Location 117](https://r.io/k?location=117))",
            Locator(location="117", url="https://r.io/k?location=117"),
        ),
        ("([Page 12](https://r.io/1))", Locator(page=12, url="https://r.io/1")),
        ("(Page xii)", Locator(location="xii")),
        ("([Time 0:01:02](https://r.io/1))", Locator(location="0:01:02", url="https://r.io/1")),
        ("([View Tweet](https://r.io/1))", Locator()),
    ],
)
def test_the_place_of_a_highlight_is_no_text(tmp_path: Path, place: str, locator: Locator) -> None:
    section = read_note(tmp_path, f"{HEADER}* Oil (page 3) is cheap. {place}\n").sections[0]
    assert (section.text, section.find_locator(0)) == ("Oil (page 3) is cheap.", locator)


def test_headings_among_highlights_are_chapters(tmp_path: Path) -> None:
    content = (
        "# Engines\n\n### Metadata\n- Author: Mira Vogt\n- Category: #books\n\n### Highlights\n\n"
        "- # PART I\n- Oil.\n- ## **Water**\n- Cold.\n#### Fire\nHot. (Page 3)\nHotter. (Page 4)\n"
    )
    source = read_note(tmp_path, content)
    assert [(section.text, section.find_locator(0).chapter) for section in source.sections] == [
        ("Oil.", "PART I"),
        ("Cold.", "Water"),
        ("Hot.", "Fire"),
        ("Hotter.", "Fire"),
    ]
    assert (source.title, source.author, source.category) == ("Engines", "Mira Vogt", "books")


def test_front_matter_wins_over_readwises_metadata(tmp_path: Path) -> None:
    source = read_note(tmp_path, f"---\ntitle: Mine\ntags: [x]\n---\n{HEADER}- Oil.\n")
    assert (source.title, source.tags, get_texts(source)) == ("Mine", ("x",), ["Oil."])


@pytest.mark.parametrize(
    "content",
    [
        "# Engines\n\n## Metadata\n- Weight: 3 kg\n\n## Highlights\n- Oil.",
        "# Engines\n\n## Highlights\n- Oil. (Page 3)",
    ],
)
def test_other_notes_with_such_headings_stay_whole(tmp_path: Path, content: str) -> None:
    assert get_texts(read_note(tmp_path, content)) == [content]

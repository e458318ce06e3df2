"""Markdown and text files become sources; an invalid file is reported with advice."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from shared.knowledge.source import Section, Source
from tests.support.source_files import read_only_source, read_problems, read_warnings, write_file

WRITTEN = datetime(2024, 5, 31, tzinfo=UTC)


def test_front_matter_describes_the_text_below_it(tmp_path: Path) -> None:
    content = (
        "---\ntitle: 12:30 in Paris\nauthor: [Ann, Bob]\ntags: [travel, no, '#2024', travel]\n"
        "URL: https://example.com/paris\ncategory: essays\nlang: fr\n"
        "date: 2024-05-31\nlayout: post\n---\n"
        "\n# Heading\n\nWords.\n"
    )
    expected = Source(
        source_id=read_only_source(write_file(tmp_path, "paris.md", "x")).source_id,
        title="12:30 in Paris",
        author="Ann, Bob",
        category="essays",
        language="fr",
        tags=("travel", "no", "2024"),
        source_url="https://example.com/paris",
        folder=tmp_path.name,
        sections=(Section("# Heading\n\nWords.", highlighted_at=WRITTEN, written_at=WRITTEN),),
        markdown=True,
    )
    source = read_only_source(write_file(tmp_path, "paris.md", content))
    (section,) = source.sections
    assert replace(source, sections=(replace(section, saved_at=None),)) == expected


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("---\ntitle: Given\n---\n# Heading\n", "Given"),
        ("---\ntitle:\nauthor: null\n---\n# Heading\n", "Heading"),
        ("---\n---\nWords.\n# Heading ##\n", "Heading"),
        ("# C#\n", "C#"),
        ("#hashtag\n\n# ##\n\n## Second level\n", "note"),
        ("```sh\n# a comment\n```\n# Heading\n", "Heading"),
        ("~~~\n# a comment, in a block that never ends\n", "note"),
        ("Words only.", "note"),
        ("# **Bread** &amp; <u>salt</u>[^1], by [Ann][a]", "Bread & salt, by Ann"),
        ("# `a<br>`", "`a<br>`"),
        ("Bread *and* salt\n===\n\nFlour.", "Bread and salt"),
        ("Flour.\n\nBread\n=====\n# Salt", "Bread"),
        ("Two lines of\na paragraph\n===", "note"),
        ("```\na\n\nb\n===\n```\nWords.", "note"),
        ("# " + "long " * 100, "long " * 59 + "long…"),
    ],
)
def test_a_title_is_front_matter_or_a_heading_or_the_file_name(
    tmp_path: Path, content: str, title: str
) -> None:
    assert read_only_source(write_file(tmp_path, "note.md", content)).title == title


@pytest.mark.parametrize(
    "text",
    [
        "---\nA rule, not front matter.\n---\nWords.",
        "---\nNo second rule.",
        "--- a: b ---\nWords.",
        "---\nChapter one: of two: rules\n---\nWords.",
    ],
)
def test_a_rule_at_the_top_is_part_of_the_text(tmp_path: Path, text: str) -> None:
    assert read_only_source(write_file(tmp_path, "note.md", text)).text == text


def test_tags_may_be_one_line_with_commas(tmp_path: Path) -> None:
    path = write_file(tmp_path, "note.md", "---\ntags: 'one, two words,, #three'\n---\nWords.")
    assert read_only_source(path).tags == ("one", "two words", "three")


@pytest.mark.parametrize(
    "field",
    [
        "source: <https://example.org/a_(b)>",
        "url: '[the page](https://example.org/a_(b))'",
        "link: [https://example.org/a](https://example.org/a_(b))",
    ],
)
def test_an_address_may_be_a_link_in_markdown(tmp_path: Path, field: str) -> None:
    path = write_file(tmp_path, "note.md", f"---\n{field}\ntitle: x\n---\nWords.")
    assert read_only_source(path).source_url == "https://example.org/a_(b)"


def test_a_tag_with_a_colon_and_several_authors_are_read(tmp_path: Path) -> None:
    content = "---\nauthors: [Ann, Bo]\ntags:\n- book: knots\n- sea\n---\nWords."
    source = read_only_source(write_file(tmp_path, "note.md", content))
    assert (source.author, source.tags) == ("Ann, Bo", ("book: knots", "sea"))


def test_line_ends_byte_order_mark_and_controls_are_normalised(tmp_path: Path) -> None:
    path = write_file(tmp_path, "note.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\x0c\tfour\x1b\r\n")
    source = read_only_source(path)
    assert (source.text, source.markdown) == ("one\ntwo\nthree\tfour", None)


UNKNOWN_ENCODING = "is in an encoding that is not recognized: save it as UTF-8"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no text"),
        (b"---\ntitle: Empty\n---\n \n", "has no text"),
        (b"abc\0def", "is not text: there is a NUL byte at position 3"),
        (b"caf\xe9 \x02\x03", "is not text: it has control characters, and is not UTF-8"),
        (bytes(range(128, 256)), UNKNOWN_ENCODING),
        ("Ünicode".encode("utf-16-le"), "is not text: there is a NUL byte at position 1"),
        ("a\0b".encode("utf-16"), "is not text: there is a NUL character at position 1"),
        (
            "ab".encode("utf-16")[:-1],
            "has a UTF-16 byte order mark, but is not UTF-16: truncated data; save it as UTF-8",
        ),
    ],
)
def test_an_unreadable_text_file_is_reported_with_advice(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    assert read_problems(write_file(tmp_path, "note.md", content)) == [("note.md", reason)]


@pytest.mark.parametrize(
    ("line", "title", "author", "tags"),
    [
        ("title: Dune: a novel", "Dune: a novel", "Ann", ()),
        ("title: [Draft] The end", "[Draft] The end", "Ann", ()),
        ("title: *Emphatic* `code`", "*Emphatic* `code`", "Ann", ()),
        ('title: "The End" of it', '"The End" of it', "Ann", ()),
        ("tags: @work", "note", "Ann", ("@work",)),
        ("author: [[X]]", "note", "X", ()),
        ("author: [[Last, First]]", "note", "Last, First", ()),
        ("author: [[a/X|Bob]], [[Y]]", "note", "Bob, Y", ()),
        ("author:\n- [[X]]\n- [[Y|Bob]]", "note", "X, Bob", ()),
        ("author:\n\n  - @x # a\n  # b\n  - [[Y]]", "note", "@x # a, Y", ()),
        ("author: [[[X]], [[Y]]]", "note", "X, Y", ()),
        ("tags: book sf", "note", "Ann", ("book", "sf")),
        ("tags: deep work, sf", "note", "Ann", ("deep work", "sf")),
        ("tags: [deep work, sf]", "note", "Ann", ("deep work", "sf")),
        ('tags: "#x #y"', "note", "Ann", ("x", "y")),
        ("Tags: #x #y", "note", "Ann", ("x", "y")),
        ("tags: #x, #y z", "note", "Ann", ("x", "y z")),
        ("tags: [a/b, #x,#y-z, 'c d']", "note", "Ann", ("a/b", "x", "y-z", "c d")),
        ("tags: x, #y", "note", "Ann", ("x", "y")),
        ("tags: x # a comment", "note", "Ann", ("x",)),
        ("tag: #", "note", "Ann", ()),
        ("tags:\n- #x\n- '#y'\n  - #z", "note", "Ann", ("x", "y", "z")),
        ("title: Ann's issue #7 of 9", "Ann's issue #7 of 9", "Ann", ()),
        ("title: Keel # a comment", "Keel", "Ann", ()),
        ("tags:\n- one\n  - two\n    - three", "note", "Ann", ("one", "two", "three")),
    ],
)
def test_front_matter_is_read_as_people_type_it(
    tmp_path: Path, line: str, title: str, author: str, tags: tuple[str, ...]
) -> None:
    path = write_file(tmp_path, "note.md", f"---\nauthor: Ann\n{line}\n---\nWords.")
    assert read_warnings(path) == []
    source = read_only_source(path)
    assert source.title == title
    assert source.author == author
    assert source.tags == tags
    assert source.text == "Words."


@pytest.mark.parametrize(
    "header",
    [
        "---\n\ttitle: Rope\n\ttags:\n\t\t- a\n\t\t- b\n---",
        "---\n\ttitle: Rope\ntags: #a #b\n---",
        '+++\ntitle = "Rope"\ndate = 2024-05-31T10:00:00Z\ntags = ["a", "b"]\n+++',
        '+++\ntitle = "Rope"\ntags = ["a", "b"]\ndraft = false\n[params]\nweight = 3\n+++',
    ],
)
def test_tabs_and_toml_are_front_matter_too(tmp_path: Path, header: str) -> None:
    path = write_file(tmp_path, "note.md", f"{header}\nWords.")
    assert read_warnings(path) == []
    source = read_only_source(path)
    assert source.title == "Rope"
    assert source.tags == ("a", "b")
    assert source.text == "Words."


def test_a_block_that_is_not_toml_stays_in_the_text(tmp_path: Path) -> None:
    path = write_file(tmp_path, "note.md", "+++\nRope and knots\n+++\nWords.")
    assert read_only_source(path).text == "+++\nRope and knots\n+++\nWords."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("just words", "line 3: not a `key: value` pair"),
        ("x: [a, b", "line 3: x: expected ',' or ']', but got '<stream end>'"),
        ('x: "a', "line 3: x: found unexpected end of stream"),
        ("x: \ufffe", "line 3: x: special characters are not allowed"),
        ("x: " + "[" * 1_000, "line 3: x: nested too deeply"),
        ("x:\n  a: [b\n", "line 4: x: is not part of a value"),
        ("author:\n- 'b\n# c\n- d: e: f", "line 4: author: found unexpected end of stream"),
        ("- x", "line 3: title: is not part of a value"),
    ],
)
def test_a_line_that_is_not_yaml_loses_only_itself(tmp_path: Path, line: str, reason: str) -> None:
    content = f"---\ntitle: Given: it\n{line}\ntags: [a]\n---\nWords."
    path = write_file(tmp_path, "note.md", content)
    assert read_warnings(path) == [("note.md", f"{reason}; line ignored")]
    source = read_only_source(path)
    assert source.title == "Given: it"
    assert source.tags == ("a",)
    assert source.text == "Words."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("date: yesterday", "date: “yesterday” is not an ISO 8601 date such as 2024-05-31"),
        ("date: 06/01/2024", "date: “06/01/2024” is not an ISO 8601 date such as 2024-05-31"),
        ("created: [1]", "created: A date is a text such as 2024-05-31"),
        ("tags: {a: b}", "tags: Tags are a list, or a text with commas"),
        ("tags: [[a, b], c]", "tags: A tag is a text, or an object with a name"),
        ("Title: {a: b}", "title: Input should be a valid string"),
    ],
)
def test_an_invalid_field_is_dropped_from_its_note(tmp_path: Path, line: str, reason: str) -> None:
    path = write_file(tmp_path, "note.md", f"---\nauthor: Ann\n{line}\n---\nWords.")
    assert read_warnings(path) == [("note.md", f"line 3: {reason}; field ignored")]
    source = read_only_source(path)
    assert source.text == "Words."
    assert source.author == "Ann"
    assert source.tags == ()


def test_a_field_with_exponential_yaml_aliases_is_dropped(tmp_path: Path) -> None:
    """Each name refers nine times to the one before it, so the last one is 9**8 values."""
    names = "abcdefghi"
    levels = [f"{name}: &{name} [{f'*{below}, ' * 9}]" for below, name in pairwise(names)]
    front_matter = "\n".join(["a: &a [x]", *levels, "date: *i"])
    path = write_file(tmp_path, "note.md", f"---\n{front_matter}\n---\nWords.")
    reason = "line 11: date: A date is a text such as 2024-05-31; field ignored"
    assert read_warnings(path) == [("note.md", reason)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_by_its_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    content = "\ufeff---\r\nauthor: Ö\r\nx: [\r\n---\r\nGrüße \U0001f600.\r\n"
    path = write_file(tmp_path, "note.md", content.encode(encoding))
    source = read_only_source(path)
    assert source.author == "Ö"
    assert source.text == "Grüße \U0001f600."
    ((_, reason),) = read_warnings(path)
    assert reason.startswith("line 3: x: ")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("202405311642 Reefs.md", "Reefs"),
        ("Reefs_20240531164153.md", "Reefs"),
        ("202405311642.md", "202405311642"),
        ("978020137962.md", "978020137962"),
        ("2024-05-31 Reefs.md", "2024-05-31 Reefs"),
        ("Reefs 0123456789abcdef0123456789abcdef.md", "Reefs"),
        ("Boats___Reefs.md", "Boats/Reefs"),
    ],
)
def test_a_title_has_no_id_of_a_program(tmp_path: Path, name: str, title: str) -> None:
    assert read_only_source(write_file(tmp_path, name, "Words.")).title == title


FILE_TIME = datetime(2019, 3, 2, 12, tzinfo=UTC)
DATED_NAME = "2024-05-31 Note.md"


@pytest.mark.parametrize(
    ("name", "front_matter", "date"),
    [
        (DATED_NAME, "date: 2021-01-01\ncreated: 2022-01-01\nupdated: 2023-01-01", "2021-01-01"),
        (DATED_NAME, "updated: 2023-01-01\ncreated: 2022-01-01", "2022-01-01"),
        (DATED_NAME, "date: soon\nupdated: 2023-01-01", "2023-01-01"),
        (DATED_NAME, "title: a", "2024-05-31"),
        (DATED_NAME, "created: 1.6.2024", "2024-06-01"),
        (DATED_NAME, "created: 2024/6/1", "2024-06-01"),
        (DATED_NAME, "created: 2024/06/01 10:00", "2024-06-01"),
        (DATED_NAME, "created: June 1st, 2024", "2024-06-01"),
        (DATED_NAME, "created: Saturday, 1 June 2024", "2024-06-01"),
        (DATED_NAME, "created: 1. Juni 2024 um 10:00 Uhr", "2024-06-01"),
        (DATED_NAME, "created: '[[June 1st, 2024]]'", "2024-06-01"),
        (DATED_NAME, "created: May 31", "2024-05-31"),
        ("note.md", "date: 06/01/2024", "2019-03-02"),
        ("20240531.md", "", "2024-05-31"),
        ("Meeting 2024_05_31.md", "", "2024-05-31"),
        ("2024-02-30 or 2024-05-31.md", "", "2024-05-31"),
        ("2024-05-31/note.md", "", "2019-03-02"),
        ("202405311.md", "", "2019-03-02"),
        ("202405311642 Reefs.md", "", "2024-05-31"),
        ("Reefs 20240531164153.md", "", "2024-05-31"),
        ("202413311642 Reefs.md", "", "2019-03-02"),
        ("May 31, 2024.md", "", "2024-05-31"),
        ("Friday, May 31st, 2024.md", "", "2024-05-31"),
        ("31. Mai 2024.md", "", "2024-05-31"),
        ("Tag 31.5.2024.md", "", "2024-05-31"),
        ("1.31.5.2024.md", "", "2019-03-02"),
        ("1er aou\u0302t 2024.md", "", "2024-08-01"),
        ("31 de mayo de 2024.md", "", "2024-05-31"),
        ("2024年5月31日.md", "", "2024-05-31"),
        ("journals/2024_05_31.md", "", "2024-05-31"),
        ("May 31.md", "", "2019-03-02"),
        ("1789-07-14 Bastille.md", "", "2019-03-02"),
        ("note.txt", "", "2019-03-02"),
    ],
)
def test_a_date_is_front_matter_or_in_the_name_or_the_files_own(
    tmp_path: Path, name: str, front_matter: str, date: str
) -> None:
    path = write_file(tmp_path, name, f"---\n{front_matter}\n---\nWords.")
    os.utime(path, (0, FILE_TIME.timestamp()))
    (section,) = read_only_source(path).sections
    assert date == f"{next(iter(section.dates.values())):%Y-%m-%d}"
    assert (section.highlighted_at is not None) == front_matter.startswith("date: 2")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#one two #three/four-five_6, #Größe.", ("one", "three/four-five_6", "Größe")),
        ("#2024 #1 #x1 #2024/plans", ("x1", "2024/plans")),
        ("# Heading\n## Another\n#not-a-heading", ("not-a-heading",)),
        ("#202bfc #fff, #00B7DA #0af #ffff00cc", ()),
        ("#facade #e2e #b2b #bed #2024/plans", ("facade", "e2e", "b2b", "bed", "2024/plans")),
        ("#e\u0301te\u0301 and #don't", ("\u00e9t\u00e9",)),
        ("C# a#b (#anchor) [[#Heading]] https://x.org/#part &#xe9; \\#escaped", ()),
        ("`#code` ``a ` #code`` #real ` #open", ("real", "open")),
        ("a\n```sh\n#include <x>\n```\n#real\n~~~~\n~~~\n#code", ("real",)),
        ("> ```\n> #code\n> ```\n> #real", ("real",)),
        ("Code:\n\n    #code\n\tmore #code\n\n- a\n    - #real", ("real",)),
        ("```#code``` #real", ("real",)),
        ("`code`#not `code` #real", ("real",)),
        ("Code:\n\n    #code\n#real", ("real",)),
        ("#Given #given #new", ("new",)),
        ("a #[[two words]] #[[Sea/north|N]] ##[[no]] `#[[no]]` #b", ("two words", "N", "b")),
        ("$$ #no $$ #a\n\n$$\n#no x\n$$\n#b $$ #c", ("a", "b", "c")),
        ('#include <x.h>\n#include "y.h"\n#ifdef NO\n#define NO 1\n#endif\n#include', ("include",)),
        ("<mark style='background: #FFF3A3'>a</mark> #real a < b #too > c", ("real", "too")),
        (f"#{'long' * 26} #short", ("short",)),
    ],
)
def test_inline_tags_follow_those_of_the_front_matter(
    tmp_path: Path, text: str, tags: tuple[str, ...]
) -> None:
    path = write_file(tmp_path, "note.md", f"---\ntags: given\n---\n{text}")
    assert read_only_source(path).tags == ("given", *tags)


def test_plain_text_has_no_inline_tags(tmp_path: Path) -> None:
    assert read_only_source(write_file(tmp_path, "note.txt", "#include <x>")).tags == ()


def test_a_note_with_too_many_inline_tags_keeps_the_first_200(tmp_path: Path) -> None:
    path = write_file(tmp_path, "note.md", " ".join(f"#tag{number}" for number in range(5_000)))
    assert len(read_only_source(path).tags) == 200


def test_a_file_name_that_is_not_utf_8_can_be_printed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    try:
        path = write_file(tmp_path, name, "Words.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert read_only_source(path).title == "caf\ufffd"
    path.write_text("")
    assert read_problems(path) == [("caf\ufffd.md", "has no text")]


def test_a_page_of_logseq_is_text_without_its_bookkeeping(tmp_path: Path) -> None:
    block_id = "6657b2c1-1111-4222-8333-444455556666"
    content = (
        "title:: Flats\ntype:: [[book]]\nicon:: 🐚\nTags:: sea, [[low water]]\nauthor:: [[Ann]]\n\n"
        f"- Mud stores carbon.\n  id:: {block_id}\n  collapsed:: true\n\t- Crabs turn it.\n"
        "- TODO ask\n  :LOGBOOK:\n  CLOCK: [2024-05-31 Fri 10:00:00]\n  :END:\n"
        f"- See (({block_id})), {{{{query (task TODO)}}}}.\n- id:: a name\n"
        "- #+BEGIN_QUOTE of a pilot\n  Ebb. ![x](y.png){:height 1, :width 2}\n  #+END_QUOTE\n"
        "- Silt.\n  ls-type:: annotation\n  hl-page:: 12\n  hl-color:: red\n  card-repeats:: 1\n"
    )
    source = read_only_source(write_file(tmp_path, "Tidal flats.md", content))
    assert (source.title, source.author) == ("Flats", "Ann")
    assert source.tags == ("sea", "low water")
    assert source.text == (
        "type: book\n\n"
        "- Mud stores carbon.\n\t- Crabs turn it.\n- TODO ask\n- See , .\n- id:: a name\n"
        "  Ebb. ![x](y.png)\n- Silt.\n  hl-page:: 12"
    )


def test_properties_and_dates_of_tasks_in_a_graph_of_logseq_are_no_text(tmp_path: Path) -> None:
    write_file(tmp_path, "logseq/config.edn", "{}")
    content = (
        "- status:: reading\n  author:: Ann\n- Mud stores carbon.\n  source:: field guide\n"
        "- TODO ask\n  SCHEDULED: <2024-06-01 Sat>\n  DEADLINE: <2024-06-02 Sun 10:00>\n"
        "- {{embed [[Crabs]]}}\n- The rule a:: b stays.\n- ```\n  key:: value\n  ```\n"
    )
    source = read_only_source(write_file(tmp_path, "pages/Flats.md", content))
    assert source.author == "Ann"
    assert source.text == (
        "- Mud stores carbon.\n- TODO ask\n- The rule a:: b stays.\n- ```\n  key:: value\n  ```"
    )
    file = write_file(tmp_path, "pages/Silt.md", "title:: Silts\nkind:: book\n\n- Silt.\n")
    assert (read_only_source(file).title, read_only_source(file).text) == ("Silts", "- Silt.")
    file = write_file(tmp_path, "pages/Watt.md", "alias:: Flats\n")
    assert read_only_source(file).text == "alias:: Flats"
    assert read_problems(write_file(tmp_path, "journals/2024_05_31.md", "-\n")) == []


def test_properties_without_a_text_below_them_are_the_text(tmp_path: Path) -> None:
    path = write_file(tmp_path, "Watt.md", "alias:: Flats\ntags:: sea\n")
    assert read_only_source(path).text == "alias:: Flats\ntags:: sea"

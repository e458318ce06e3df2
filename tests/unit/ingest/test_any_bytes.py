"""Any bytes give sources or named refusals, whatever the file is called, and no invented words."""

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.jobs.ingest.listing import read
from functions.jobs.ingest.readers import (
    chats,
    hypothesis,
    json_lines,
    koreader,
    link_lists,
    raindrop,
    reading,
    text_files,
)
from functions.jobs.ingest.readers.kindle import clippings, notebook, notes_table
from functions.jobs.ingest.readers.notion import table
from functions.jobs.ingest.readers.reading import FAULT, FORMATS, InputProblem, detect_format
from functions.jobs.ingest.readers.readwise import csv_export, export
from functions.jobs.ingest.readers.source_file import LinkList, Record, SourceFile, Unreadable
from shared.knowledge.export_lines import HEADER
from shared.knowledge.source import Source
from tests.support.docx_files import make_docx, make_paragraph, make_run
from tests.support.epub_files import make_epub, make_nav, make_zip
from tests.support.pdf_files import Annotation, make_pdf
from tests.support.source_files import format_json_lines, write_file
from tests.support.web_pages import PROSE, make_article_page

CARREL_EXPORT: Final = "export.jsonl"
NOTION_ID: Final = "0123456789abcdef0123456789abcdef"
NOTION_PAGE: Final = (
    b"# Keel\n\nTags: oak\nCreated: May 31, 2024\nBoat: Gull (Gull%20012.md)\n\n[It](x.md).\n"
)
CHATGPT: Final = (
    b'[{"conversation_id": "7", "title": "On tests", "mapping": {"a": {"message": {"author":'
    b' {"role": "user"}, "content": {"parts": ["Is it flaky?"]}}}}}, {"mapping": {}}]'
)
SAMPLES: Final = {
    "My Clippings.txt": clippings.FORMAT.example.encode() * 3,
    "note.md": text_files.FORMAT.example.encode(),
    "Readwise.md": b"# Oil\n\n## Metadata\n- Author: [[Mira]]\n- Full Title: Oil\n\n## Highlights\n"
    b"- Oil is cheap. ([View Highlight](https://r.io/1))\n    - Note: Mine.\n- Water.\n",
    "Logseq.md": b"title:: Flats\n\n- Mud stores carbon.\n  id:: 66\n- See {{query (task)}}.\n",
    "note.txt": "Größe “x” is what the sea has.\n".encode() * 3,
    "docs.jsonl": json_lines.FORMAT.example.encode(),
    CARREL_EXPORT: format_json_lines(
        HEADER,
        {"source": {"source_id": "aa", "title": "A", "tags": ["x"]}},
        {"chunk": {"chunk_id": "a-1", "start": 0, "text": "One."}},
        {"chunks": 1},
    ).encode(),
    "export.json": export.FORMAT.example.encode(),
    "koreader.json": koreader.FORMAT.example.encode(),
    "export.csv": csv_export.FORMAT.example.encode(),
    "hypothesis.json": hypothesis.JSON_FORMAT.example.encode(),
    "hypothesis.csv": hypothesis.TABLE_FORMAT.example.encode(),
    "raindrop.csv": raindrop.FORMAT.example.encode(),
    "pocket.csv": link_lists.FORMAT.example.encode(),
    "bookmarks.html": link_lists.HTML_FORMAT.example.encode(),
    "bookmarks.json": (
        b'{"roots": {"bookmark_bar": {"name": "Bar", "children": [{"name": "Bread", "date_added":'
        b' "13361647313000000", "url": "https://example.com/bread", "tags": ["rye"]}]}}}'
    ),
    "Bookmarks": (
        b'{"roots": {"bookmark_bar": {"name": "Bar", "children": [{"name": "Bread", "date_added":'
        b' "13361647313000000", "url": "https://example.com/bread", "tags": ["rye"]}]}}}'
    ),
    "conversations.json": chats.FORMAT.example.encode(),
    "chatgpt.json": CHATGPT,
    "notes.csv": notes_table.FORMAT.example.encode(),
    "notebook.html": notebook.FORMAT.example.encode() * 2,
    "page.html": make_article_page().encode(),
    "wechat.html": (
        "<html><!--\n Page saved with SingleFile \n url: https://example.com/one \n--><body><div"
        f' id="js_content" style="visibility: hidden"><section>{PROSE}</section></div>'
    ).encode(),
    "sails.docx": make_docx(
        make_paragraph("Wind", "H2")
        + make_paragraph("It fills the sail.")
        + make_paragraph(f'<w:commentRangeStart w:id="7"/>{make_run("Reef early.")}'),
        comments=f'<w:comment w:id="7" w:author="Bo">{make_paragraph("Yes.")}</w:comment>',
    ),
    f"Keel {NOTION_ID}.md": NOTION_PAGE,
    f"Boats {NOTION_ID}.csv": table.FORMAT.example.encode(),
    "Export-0123.zip": make_zip(
        {
            f"Boats/Keel {NOTION_ID}.md": NOTION_PAGE,
            f"Boats {NOTION_ID[::-1]}.csv": table.FORMAT.example,
            "Export-0123-Part-2.zip": make_zip({"Sails.md": "# Sails"}),
        }
    ),
    "rope.mhtml": (
        "Snapshot-Content-Location: https://example.com/rope\nSubject: Rope\nDate: 31 May 2024\n"
        'Content-Type: multipart/related; boundary="b"\n\n--b\nContent-Type: text/html\n\n'
        f"{make_article_page()}\n--b--\n"
    ).encode(),
    "formulas.html": (
        f"<p>{PROSE}</p><p>10<sup>6</sup> <math><mi>x</mi><mn>2</mn></math> <q>so</q>{PROSE}</p>"
    ).encode(),
    "sails.pdf": make_pdf(
        ("On Sails", "The wind fills the large-", "ly sail."),
        ("On Sails", "Reef early, for a reef taken"),
        info={"Title": "Sails", "CreationDate": "D:20240531164153+02'00'"},
        outline=[("Reefs", 1)],
        annotations=[Annotation("Highlight", 0, (1, 2), "Yes!", "D:20240601100000Z")],
        labels=b"0 << /S /r >>",
        form={"Boat": "Gull"},
    ),
    "sails.epub": make_epub(
        {"one.xhtml": "<h1>Wind</h1><p>It fills the sail.</p>", "two.xhtml": "<p>Reef early.</p>"},
        nav=make_nav(("text/one.xhtml", "Wind"), ("text/two.xhtml", "Reefs")),
    ),
}
"""A file of each format, and of each variant of a format that is read differently."""
ENCODINGS: Final = ("utf-16", "utf-16-le", "utf-8-sig", "cp1252", "cp932", "koi8-r", "gb18030")
MARKUP: Final = (
    *("<p>", "</p>", "<table>", "<tr><td>", "<pre>", "<br>", "<li>", "<a href=x>", "<sup>", "<q>"),
    *("<code>", "<td class=gutter>1", "<template shadowrootmode=open>", "<!--", "<svg>", "&#3;"),
    *("&#xD800;", "<meta charset=utf-7>", "<time datetime=2024-99-99>", "]]>", "==========\n"),
    *("---\n", "+++\n", "```\n", "%%", "[[a|b]]", "![[", "(((", "^", "::", "\n- Note: ", '"a" b"'),
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
NOISE: Final = st.binary(max_size=40) | st.one_of(
    st.text(max_size=20),
    st.text(alphabet="ab:-[]{}&*!|>'\"#%@,?\\xuU0\n \t\x85\ud800", max_size=20),
    st.sampled_from(MARKUP),
    JSON.map(json.dumps),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
TOKEN: Final = re.compile(rb'"[^"]*"|[\w.]+')
"""A quoted string or a word: replacing a whole one keeps JSON, tables and markup valid."""
ADDED: Final = {"largely", "You", "Assistant"}
"""Words that are not in a sample: one that it hyphenates, and the names of speakers."""


@st.composite
def edit(draw: st.DrawFn, data: bytes) -> bytes:
    """Cut, overwrite, repeat or move a part of a file, up to three times."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 40, len(data)])))
        operation = draw(st.sampled_from(["cut", "replace", "replace a token", "repeat", "move"]))
        if operation == "replace a token" and (token := TOKEN.search(data, start)):
            start, end = token.span()
        before, part, after = data[:start], data[start:end], data[end:]
        match operation:
            case "cut":
                data = before + after
            case "repeat":
                data = before + part * draw(st.sampled_from([2, 50])) + after
            case "move":
                rest = before + after
                target = draw(st.integers(0, len(rest)))
                data = rest[:target] + part + rest[target:]
            case _:
                data = before + draw(NOISE) + after
    return data


def damage(sample: bytes) -> st.SearchStrategy[bytes]:
    """Generate edited samples, samples in other encodings, archives of edited files, and noise."""
    if sample.startswith(b"PK"):
        return st.one_of(edit(sample), edit_member(sample), NOISE)
    if sample.startswith(b"%PDF"):
        return st.one_of(edit(sample), NOISE)
    encoded = st.sampled_from(
        [sample.decode().encode(encoding, "replace") for encoding in ENCODINGS]
    )
    return st.one_of(edit(sample), encoded, encoded.flatmap(edit), NOISE)


@st.composite
def edit_member(draw: st.DrawFn, archive: bytes) -> bytes:
    """Edit one file of an archive, and pack it again."""
    members = dict(unpack(archive))
    name = draw(st.sampled_from(sorted(members)))
    return make_zip(members | {name: draw(edit(members[name]))})


def unpack(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each member that can be unpacked."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            try:
                yield name, opened.read(name)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError):
                continue


def list_parts(name: str, data: bytes) -> list[bytes]:
    """Return the bytes of a file, and of what is compressed or encoded in it."""
    parts = [data]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        parts.append(data.decode("utf-16", "replace").encode())
    if name.endswith((".docx", ".epub", ".zip")):
        for member, content in unpack(data):
            parts += list_parts(member, content)
    if name.endswith(".pdf"):
        parts += [
            bytes.fromhex(text.decode()).decode("utf-16", "replace").encode()
            for text in re.findall(rb"<((?:[0-9a-f]{2})+)>", data)
        ]
        for start in re.finditer(rb"stream\r?\n", data):
            try:
                parts.append(zlib.decompressobj().decompress(data[start.end() :]))
            except zlib.error:
                continue
    return parts


def count_most_words(name: str, data: bytes) -> int:
    """Return an upper bound of the words in a file: each byte above ASCII may be one."""
    words = re.compile(rb"[A-Za-z0-9_]+|[\x80-\xff]")
    return sum(len(words.findall(part)) for part in list_parts(name, data))


def repeats_highlights(name: str) -> bool:
    """Return whether a highlight is read twice: by itself, and in the text of its page."""
    return name.endswith((".docx", ".pdf"))


def test_samples_of_all_formats_are_read_without_warnings(tmp_path: Path) -> None:
    """No word is read more often than the file has it."""
    formats = set()
    for name, sample in SAMPLES.items():
        path = write_file(tmp_path, name, sample)
        items = list(read(path))
        sources = [item for item in items if isinstance(item, Source)]
        lists = [item for item in items if isinstance(item, LinkList)]
        assert sources + lists == items
        assert not any(links.warnings for links in lists)
        words = Counter(re.findall(r"[A-Za-z]{3,}", " ".join(source.text for source in sources)))
        content = b" ".join(list_parts(name, sample)).decode("utf-8", "replace")
        copies = 2 if repeats_highlights(name) else 1
        assert {
            word for word, count in words.items() if count > copies * content.count(word)
        } <= ADDED
        file_format = detect_format(SourceFile(path, name, "x", name))
        formats.add(file_format and file_format.name)
    assert formats == {file_format.name for file_format in FORMATS}


@pytest.mark.parametrize("name", SAMPLES)
def test_any_bytes_give_sources_or_refusals(tmp_path: Path, name: str) -> None:
    @settings(max_examples=4 if name.endswith(".pdf") else 40)  # each PDF starts a process
    @example(b"\0" * 600 + SAMPLES[name] + b"\0")
    @given(damage(SAMPLES[name]))
    def check(data: bytes) -> None:
        path = write_file(tmp_path, name, data)
        items = list(read(path))
        assert list(read(path)) == items
        sources = [item for item in items if isinstance(item, Source)]
        problems = [item for item in items if isinstance(item, InputProblem)]
        lists = [item for item in items if isinstance(item, LinkList)]
        assert len(sources) + len(problems) + len(lists) == len(items)
        texts = [source.title + source.text for source in sources]
        links = [link for link_list in lists for link in link_list.links]
        texts += [f"{link.url} {link.title} {link.folder} {link.tags}" for link in links]
        texts += [f"{problem.name} {problem.reason}" for problem in problems]
        "".join(texts).encode()
        assert not any(FAULT in problem.reason for problem in problems)
        if name != CARREL_EXPORT:  # an export is restored as it is
            assert not re.search(r"[\x00-\x08\x0b-\x1f]", "".join(texts))
        for source in sources:
            assert re.fullmatch(r"[\w-]{1,64}", source.source_id, re.ASCII)
            assert source.title.strip()
            assert all(section.text.strip() for section in source.sections)
        texts = [section.text for source in sources for section in source.sections]
        if texts and not repeats_highlights(name):
            texts = [" ".join(texts)]
        assert all(len(re.findall(r"\w+", text)) <= count_most_words(name, data) for text in texts)

    check()


def test_a_fault_of_a_reader_costs_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(file: SourceFile) -> Iterator[Record]:
        yield Record("first", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        yield from text_files.FORMAT.read(file)
        raise KeyError(file.name)

    monkeypatch.setattr(reading, "detect_format", lambda _file: replace(FORMATS[1], read=read))
    path = write_file(tmp_path, "note.md", "# Keel\n\nIt is oak.\n")
    entries = list(reading.read_entries(SourceFile(path, path.name, "x", path.name)))
    assert [entry.title for _, entry in entries if isinstance(entry, Source)] == ["Keel"]
    assert [str(entry) for _, entry in entries if isinstance(entry, Unreadable)] == [
        f"{FAULT} (ZeroDivisionError): please report it",
        f"{FAULT} (KeyError): please report it",
    ]

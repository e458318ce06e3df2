"""Any bytes in a file of any kind give sources or named refusals, and no words out of nowhere."""

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.jobs.ingest.readers import json_lines, text_files
from functions.jobs.ingest.readers.kindle import clippings, notebook
from functions.jobs.ingest.readers.reading import FORMATS, InputProblem, detect_format, read
from functions.jobs.ingest.readers.readwise import csv_export, export
from functions.jobs.ingest.readers.source_file import SourceFile
from shared.knowledge.export_lines import HEADER
from shared.knowledge.source import Source
from tests.support.epub_files import make_epub, make_nav, make_zip
from tests.support.pdf_files import Annotation, make_pdf
from tests.support.source_files import format_json_lines, write_file
from tests.support.web_pages import PROSE, make_article_page

CARREL_EXPORT: Final = "export.jsonl"
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
        {"source": {"source_id": "a", "title": "A", "tags": ["x"]}},
        {"chunk": {"chunk_id": "a-1", "start": 0, "text": "One."}},
        {"chunks": 1},
    ).encode(),
    "export.json": export.FORMAT.example.encode(),
    "export.csv": csv_export.FORMAT.example.encode(),
    "notebook.html": notebook.FORMAT.example.encode() * 2,
    "page.html": make_article_page().encode(),
    "wechat.html": (
        "<html><!--\n Page saved with SingleFile \n url: https://example.com/one \n--><body><div"
        f' id="js_content" style="visibility: hidden"><section>{PROSE}</section></div>'
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
"""A file of each format, and of each kind within a format that is read in its own way."""
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
"""A text in quotation marks, or a word: what is replaced in JSON, in tables and in attributes."""


@st.composite
def change(draw: st.DrawFn, data: bytes) -> bytes:
    """Cut, overwrite, repeat and move parts of a file, up to three times."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 40, len(data)])))
        kind = draw(st.sampled_from(["cut", "token", "noise", "repeat", "move"]))
        if kind == "token" and (token := TOKEN.search(data, start)):
            start, end = token.span()
        rest = data[:start] + data[end:]
        place = draw(st.integers(0, len(rest))) if kind == "move" else start
        added = {
            "cut": b"",
            "move": data[start:end],
            "repeat": data[start:end] * draw(st.sampled_from([2, 50])),
        }
        data = rest[:place] + (added[kind] if kind in added else draw(NOISE)) + rest[place:]
    return data


def damage(sample: bytes) -> st.SearchStrategy[bytes]:
    """Generate files like a sample: changed, in another encoding, or changed inside; or noise."""
    others = [NOISE]
    if sample.startswith(b"PK"):
        members = dict(unpack(sample))
        names = st.sampled_from(sorted(members))
        others.append(
            names.flatmap(
                lambda name: change(members[name]).map(
                    lambda content: make_zip(members | {name: content})
                )
            )
        )
    elif not sample.startswith(b"%PDF"):
        encoded = [sample.decode().encode(encoding, "replace") for encoding in ENCODINGS]
        others += [st.sampled_from(encoded), st.sampled_from(encoded).flatmap(change)]
    return change(sample) | st.one_of(others)


def unpack(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the members that are whole."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for name in opened.namelist():
            try:
                yield name, opened.read(name)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError):
                continue


def list_parts(name: str, data: bytes) -> list[bytes]:
    """Return a file, and what is packed or encoded in it."""
    parts = [data]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        parts.append(data.decode("utf-16", "replace").encode())
    if name.endswith(".epub"):
        parts += [content for _, content in unpack(data)]
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


def count_words(name: str, data: bytes) -> int:
    """Return the greatest number of words that a file may have, in whichever encoding it is."""
    words = re.compile(rb"[A-Za-z0-9_]+|[\x80-\xff]")
    return sum(len(words.findall(part)) for part in list_parts(name, data))


def test_samples_of_all_formats_are_read_without_warnings(tmp_path: Path) -> None:
    """No word is read more often than it is in the file."""
    formats = set()
    for name, sample in SAMPLES.items():
        path = write_file(tmp_path, name, sample)
        items = list(read(path))
        sources = [item for item in items if isinstance(item, Source)]
        assert sources == items
        words = Counter(re.findall(r"[A-Za-z]{3,}", " ".join(source.text for source in sources)))
        content = b" ".join(list_parts(name, sample)).decode("utf-8", "replace")
        copies = 2 if name.endswith(".pdf") else 1  # its highlight is in the text of the page, too
        divided = {"largely"}
        assert {
            word for word, count in words.items() if count > copies * content.count(word)
        } <= divided
        file_format = detect_format(SourceFile(path, name, "x", name))
        formats.add(file_format and file_format.name)
    assert formats == {file_format.name for file_format in FORMATS}


@pytest.mark.parametrize("name", SAMPLES)
def test_any_bytes_give_sources_or_refusals(tmp_path: Path, name: str) -> None:
    @settings(max_examples=4 if name.endswith(".pdf") else 40)  # a PDF is read in a process
    @example(b"\0" * 600 + SAMPLES[name] + b"\0")
    @given(damage(SAMPLES[name]))
    def check(data: bytes) -> None:
        path = write_file(tmp_path, name, data)
        items = list(read(path))
        assert list(read(path)) == items
        texts = []
        for item in items:
            assert isinstance(item, Source | InputProblem)
            assert str(item).encode()
            shown = (
                item.title + item.text if isinstance(item, Source) else f"{item.name} {item.reason}"
            )
            if name != CARREL_EXPORT:  # an export is kept unchanged
                assert not re.search(r"[\x00-\x08\x0b-\x1f]", shown)
            if isinstance(item, Source):
                assert re.fullmatch(r"[\w-]{1,64}", item.source_id, re.ASCII)
                assert item.title.strip()
                assert all(section.text.strip() for section in item.sections)
                texts += [section.text for section in item.sections]
        if texts and not name.endswith(".pdf"):  # whose highlights repeat the text of the page
            texts = [" ".join(texts)]
        assert all(len(re.findall(r"\w+", text)) <= count_words(name, data) for text in texts)

    check()

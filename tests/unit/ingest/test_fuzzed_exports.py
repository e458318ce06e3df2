"""Any file of a text format or an export gives sources or error messages, and never a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.jobs.ingest.readers import text_files
from functions.jobs.ingest.readers.kindle import clippings, notebook
from functions.jobs.ingest.readers.reading import read_entries
from functions.jobs.ingest.readers.readwise import csv_export, export
from functions.jobs.ingest.readers.source_file import SourceFile, Unreadable
from shared.knowledge.source import Source
from tests.support.source_files import read_only_source, read_warnings, write_file

EXAMPLES = {
    "export.json": export.FORMAT.example,
    "export.csv": csv_export.FORMAT.example,
    "My Clippings.txt": clippings.FORMAT.example,
    "notebook.html": notebook.FORMAT.example,
    "note.md": text_files.FORMAT.example,
    "note.txt": "A flaky test is worse than none.",
}
SAMPLES = [example.encode() * 3 for example in EXAMPLES.values()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """A file in a known format, cut or with random bytes in it, or random bytes alone."""
    sample = draw(st.sampled_from([b"", *SAMPLES]))
    start = draw(st.integers(0, len(sample)))
    end = draw(st.integers(start, len(sample)))
    middle = draw(st.binary(max_size=30) | st.text(max_size=30).map(_encode))
    return sample[:start] + middle + sample[end:]


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def read_content(folder: Path, name: str, content: bytes) -> list[Source | Unreadable]:
    """Return the sources in a file, and an error message for each item that cannot be read."""
    path = write_file(folder, name, content)
    return [entry for _, entry in read_entries(SourceFile(path, name, "fuzzed", name))]


@pytest.mark.parametrize(("name", "example"), EXAMPLES.items())
def test_the_example_of_a_format_is_read_without_warnings(
    tmp_path: Path, name: str, example: str
) -> None:
    path = write_file(tmp_path, name, example)
    assert "A flaky test is worse than none." in read_only_source(path).text
    assert read_warnings(path) == []


@pytest.mark.parametrize("name", EXAMPLES)
@given(content=damaged_files())
@example(content=b"\0" * 600 + SAMPLES[2] + b"\0")
@example(content=SAMPLES[1].replace(b'"', b'""", "'))
@example(content=b"---\ntitle: a: b\n- [\ntags: #x\n---\n[a]\n[a]: /b\n&#0;<br>[^1]")
def test_a_damaged_file_gives_sources_or_messages(folder: Path, name: str, content: bytes) -> None:
    for entry in read_content(folder, name, content):
        assert isinstance(entry, Source | Unreadable)
        if isinstance(entry, Source):
            assert entry.text.encode()  # no half surrogates
            assert all(section.text for section in entry.sections)


@given(data=st.data())
def test_a_book_with_random_fields_gives_one_entry(folder: Path, data: st.DataObject) -> None:
    names = st.sampled_from([*export.Highlight.model_fields, "other"])
    highlights = st.lists(st.dictionaries(names, JSON), max_size=3)
    book_names = st.sampled_from([*export.Book.model_fields, "other"])
    book = data.draw(st.dictionaries(book_names, JSON))
    book |= {"user_book_id": 7, "highlights": data.draw(highlights | JSON)}
    entries = read_content(folder, "export.json", json.dumps([book]).encode())
    assert len(entries) == 1

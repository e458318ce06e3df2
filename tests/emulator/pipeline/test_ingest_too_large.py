"""Items that are too large for a document or for memory are reported, and block no others."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from functions.jobs.ingest.batches import MAX_CHARACTERS, chunk_in_batches
from functions.jobs.ingest.readers.json_lines import MAX_LINE_BYTES
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES as MAX_EXPORT
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from functions.jobs.ingest.readers.text_files import MAX_BYTES as MAX_TEXT
from functions.jobs.ingest.readwise.library import DEAD_LETTERS, MARGIN
from shared.core.deferral import MAX_TRIES
from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.runtime.job import Failure
from shared.text.splitting import CHUNK_LIMITS
from tests.support.apps import Apps
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.readwise import START, TOKEN, FakeReadwise
from tests.support.ingest_runs import (
    read_progress,
    read_texts,
    run_ingest,
)
from tests.support.jobs import make_job_context
from tests.support.source_files import (
    format_json_lines,
    make_readwise_book,
    read_problems,
    read_sources,
    write_export,
    write_file,
)
from tests.support.stored_documents import read_documents

BOOK_7 = derive_book_source_id("7")

LONG_TAGS: Final = [{"name": f"{number}" + "\N{BREAD}" * 1_400} for number in range(200)]
"""A megabyte of tags: no chunk that has them fits into a document."""
HIGHLIGHTS_OF_MANY_TAGS: Final = [
    {"id": number, "text": f"Thought {number}.", "tags": [f"t{number}.{n}" for n in range(20)]}
    for number in range(201)
]
"""Highlights with 20 tags each, which together exceed the limit of tags of a source."""
TOO_LONG: Final = "has a passage of 1,122,730 bytes with its tags; at most 500,000 are allowed"
TOO_MANY: Final = (
    "has 4,020 different tags of 40,010 bytes; at most 4,000 of 300,000 bytes are allowed"
)


def make_sparse_file(path: Path, size: int) -> Path:
    """Make a sparse file of this size."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def list_failure_reasons(failures: list[Failure]) -> dict[str, str]:
    """Return the reasons by the names of the failed items, without the advice after the colon."""
    return {failure.name: failure.reason.partition(":")[0] for failure in failures}


async def test_an_oversized_book_is_dead_lettered(apps: Apps, readwise: FakeReadwise) -> None:
    app = apps(ingest_path=None, readwise_token=TOKEN, readwise_url=readwise.base_url)
    ctx = make_job_context(app)
    for number in range(1, 41):
        readwise.put_book(number, "Reef early.")
    readwise.put_book(7, book_tags=LONG_TAGS)

    report = await run_ingest(ctx)
    assert list_failure_reasons(report.failures) == {
        f"Readwise: Book 7 ({make_id(IdKind.READWISE_BOOK, '7')})": TOO_LONG
    }
    assert report.counts == Counter({"read": 39, "sources": 39, "created": 39})
    assert (await read_progress(ctx))[0] == START - MARGIN

    for _ in range(MAX_TRIES - 1):
        assert len((await run_ingest(ctx)).failures) == 1
    dead_letters = list(await DEAD_LETTERS.load(ctx, 10))
    assert list_failure_reasons(dead_letters) == {"Readwise: Book 7": TOO_LONG}
    assert len(await read_texts(ctx)) == 39

    readwise.advance(hours=1)
    readwise.put_book(7, book_tags=LONG_TAGS[:2])
    assert (await run_ingest(ctx)).failures == []
    assert len(await read_texts(ctx)) == 40


async def test_a_source_with_too_many_tags_is_not_written(ctx: Context, tmp_path: Path) -> None:
    write_export(
        tmp_path,
        make_readwise_book(user_book_id=1, title="Ledger", highlights=HIGHLIGHTS_OF_MANY_TAGS),
        make_readwise_book(),
    )
    report = await run_ingest(ctx)
    assert list_failure_reasons(report.failures) == {
        f"Ledger ({make_id(IdKind.READWISE_BOOK, '1')})": TOO_MANY
    }
    chunks = (await read_documents(ctx, "chunks")).values()
    assert [chunk["source_id"] for chunk in chunks] == [BOOK_7]
    assert list(await read_documents(ctx, "sources")) == [BOOK_7]


async def test_an_oversized_record_is_reported_and_others_are_stored(
    apps: Apps, storage: FakeCloudStorage
) -> None:
    """Its former text stays, and the next run does not read the file again.

    An oversized object is not even downloaded.
    """
    ctx = make_job_context(apps(ingest_path=None, ingest_bucket="gs://library"))
    storage.put("library", "diary.md", b" " * (MAX_TEXT + 1))
    first: dict[str, Any] = {"id": "a", "text": "Reef early."}
    storage.put("library", "docs.jsonl", format_json_lines(first))
    failures = (await run_ingest(ctx)).failures
    assert list_failure_reasons(failures) == {"gs://library/diary.md": "is larger than 32 MB"}
    assert storage.calls["download"] == 1

    second = {"id": "b", "text": "Knead well."}
    storage.put("library", "docs.jsonl", format_json_lines(first | {"tags": LONG_TAGS}, second))
    report = await run_ingest(ctx)

    assert list_failure_reasons(report.failures).keys() == {
        "gs://library/diary.md",
        f"gs://library/Reef early. ({make_id(IdKind.RECORD, 'library-a')})",
    }
    texts = sorted((await read_texts(ctx)).values())
    assert texts == [["Knead well."], ["Reef early."]]
    report = await run_ingest(ctx)
    assert list_failure_reasons(report.failures).keys() == {"gs://library/diary.md"}
    assert report.counts == Counter()


@pytest.mark.parametrize(
    ("name", "limit", "megabytes"), [("a.md", MAX_TEXT, 32), ("a.json", MAX_EXPORT, 64)]
)
def test_an_oversized_file_is_not_opened(
    tmp_path: Path, name: str, limit: int, megabytes: int
) -> None:
    problems = read_problems(make_sparse_file(tmp_path / name, limit + 1))
    assert problems == [(name, f"is larger than {megabytes} MB: split it")]


def test_an_oversized_line_is_skipped(tmp_path: Path) -> None:
    long_line = format_json_lines({"id": "1", "text": "x" * 2 * MAX_LINE_BYTES})
    short_line = format_json_lines({"id": "2", "text": "Reef early."})
    path = write_file(tmp_path, "docs.jsonl", long_line + short_line + long_line)
    reason = "is larger than 8 MB: split it"
    assert read_problems(path) == [("docs.jsonl line 1", reason), ("docs.jsonl line 3", reason)]
    assert [source.text for source in read_sources(path)] == ["Reef early."]


def test_long_sources_are_saved_a_few_at_a_time() -> None:
    text = "\n" * (MAX_CHARACTERS // 2)
    sources = [Source(name, name, sections=(Section(text),)) for name in "abcde"]
    assert [len(batch) for batch in chunk_in_batches(sources, CHUNK_LIMITS["local"])] == [2, 2, 1]

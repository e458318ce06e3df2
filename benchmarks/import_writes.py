"""The document writes per highlight: of a bulk import, of ten highlights, and of one.

Usage: python -m benchmarks.import_writes

Highlights are the first 300 characters of SciFact's abstracts. They are imported from Readwise
exports into a new emulator: 400 at once, then ten of two books, then one. After each import, the
jobs run in the order of their schedules in the cloud.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.services.firestore.async_client import FirestoreAsyncClient

from benchmarks.emulator import use_emulator
from benchmarks.jobs_dataset import HashingEmbedder
from benchmarks.measurement import print_table
from benchmarks.scifact import ABSTRACTS, read_rows, require_file
from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from shared.core.log import log_only_warnings
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Report, run_job

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS_IN_ORDER: Final = (INGEST, EMBED, CARDS, CLUSTER, INDEX)
IMPORTS: Final = {"400 highlights of 40 books": (40, 10), "10 of 2": (2, 5), "1 of 1": (1, 1)}
"""The imports by name: how many books, and how many highlights per book."""
HIGHLIGHT_CHARACTERS: Final = 300
BOOKKEEPING_COLLECTIONS: Final = ("leases", "runs")


@contextmanager
def count_writes() -> Iterator[Counter[str]]:
    """Count the writes of this process, by collection, until the block ends."""
    counts: Counter[str] = Counter()
    commit = FirestoreAsyncClient.commit

    @wraps(commit)
    def counting_commit(self: Any, request: Any = None, **kwargs: Any) -> Any:
        for write in request["writes"]:
            path = (write.update.name or write.delete).partition("/documents/")[2]
            counts[path.partition("/")[0]] += 1
        return commit(self, request=request, **kwargs)

    FirestoreAsyncClient.commit = counting_commit  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        FirestoreAsyncClient.commit = commit  # type: ignore[method-assign]


def make_export(books: range, highlights: int, texts: Iterator[str]) -> str:
    """Return a Readwise export as JSON."""
    results = [
        {
            "user_book_id": book,
            "title": f"Book {book}",
            "author": f"Author {book % 20}",
            "source": "kindle",
            "category": "books",
            "book_tags": [{"id": 1, "name": "science"}],
            "highlights": [
                {"id": 100 * book + number, "text": next(texts), "highlighted_at": "2024-05-03"}
                for number in range(highlights)
            ],
        }
        for book in books
    ]
    return json.dumps({"count": len(results), "nextPageCursor": None, "results": results})


async def import_highlights(path: Path) -> Counter[str]:
    """Run all jobs on an export, and return the writes by collection."""
    settings = Settings(google_cloud_project="bench-import", ingest_path=str(path))
    app = App(settings, embedder=HashingEmbedder("hashed"))
    with count_writes() as counts:
        for job in JOBS_IN_ORDER:
            report = await run_job(job, app)
            if not isinstance(report, Report) or report.failures:
                raise RuntimeError(f"{job.name}: {report}")
    await app.aclose()
    return counts


async def measure(folder: Path) -> None:
    """Run all imports, and print their writes per highlight."""
    remaining = (row["text"][:HIGHLIGHT_CHARACTERS] for row in read_rows(ABSTRACTS))
    rows = []
    first_book = 1
    for name, (books, highlights_per_book) in IMPORTS.items():
        book_ids = range(first_book, first_book + books)
        path = folder / f"{first_book}.json"
        path.write_text(make_export(book_ids, highlights_per_book, remaining), "utf-8")
        first_book += books
        counts = await import_highlights(path)
        bookkeeping = sum(counts.pop(collection, 0) for collection in BOOKKEEPING_COLLECTIONS)
        total = counts.total()
        chunks, terms, facets = (counts.pop(key, 0) for key in ("chunks", "lexicon", "facets"))
        per_highlight = [
            f"{count / (books * highlights_per_book):.1f}"
            for count in (total, chunks, terms, facets, counts.total())
        ]
        rows.append([name, *per_highlight, str(bookkeeping)])
    columns = ["", "writes", "chunk", "terms", "facets", "others", "leases and runs in total"]
    print_table("Writes per highlight", columns, rows)


def main() -> None:
    """Start an emulator, and measure."""
    require_file(ABSTRACTS)
    log_only_warnings()
    with use_emulator(), tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()

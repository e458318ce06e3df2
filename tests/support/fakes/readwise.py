"""A fake of Readwise's API (`GET /api/v2/export/`) that can fail on demand.

The wire format is that of https://readwise.io/api_deets: books with their highlights, page by page.
`updatedAfter` selects highlights by the time of their last change, and `ids` selects books. Deleted
items are included only with `includeDeleted=true`.
"""

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.fakes.http_server import HANGS, LoopbackHandler, LoopbackServer

Body = dict[str, Any]
"""A page, a book or a highlight in JSON."""

TOKEN: Final = "readwise-token-of-a-test"
"""The accepted token."""
START: Final = datetime(2025, 3, 1, 4, 0, tzinfo=UTC)
"""The default initial time of the server's clock."""


@dataclass(frozen=True)
class Reply:
    """A reply of the server; by default, the correct page without a pause.

    Attributes:
        status: The HTTP status.
        body: The bytes to send in place of a page.
        headers: Additional headers.
        missing: The number of bytes of the Content-Length that are never sent.
        pause: Seconds before the response; the server's shutdown ends the pause.
        alter: A function that changes the correct page.
    """

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    pause: float = 0.0
    alter: Callable[[Body], Any] = dict


HANG: Final = Reply(pause=HANGS)
BROKEN: Final = Reply(500, b"<html>Server Error (500)</html>")
CUT_CONNECTION: Final = Reply(missing=10)
"""The last ten bytes of the response are never sent."""
CUT_JSON: Final = Reply(body=b'{"count": 2, "nextPageCursor": null, "results": [{"user_book')
WEB_PAGE: Final = Reply(body=b"<html>Readwise is being maintained</html>")
NO_RESULTS: Final = Reply(alter=lambda body: {"count": body["count"]})
RESULTS_OF_ANOTHER_TYPE: Final = Reply(alter=lambda body: body | {"results": {"7": "Walden"}})
NOTHING: Final = Reply(alter=lambda _: {"count": 0, "nextPageCursor": None, "results": []})


def make_throttled_reply(retry_after: str | None = None) -> Reply:
    """Return the reply for too many requests."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = b'{"detail": "Request was throttled."}'
    return Reply(429, body, headers)


@dataclass(frozen=True)
class Call:
    """A request; `at` is its time on the monotonic clock."""

    path: str
    query: dict[str, str]
    authorization: str | None
    at: float


class FakeReadwise(LoopbackServer):
    """A fake Readwise on a free port while the `with` block runs.

    Attributes:
        now: The server's clock, for `Date` headers and `updated_at`.
        page_size: The maximum number of highlights on a page. A book may continue on the next page.
        repeats_pages: Whether each page is sent twice, with different cursors.
        script: The replies to the next requests, in order; all later replies are correct.
        on_request: Called with the number of each request, from 1, before the reply.
        calls: The requests so far, in order of arrival.
        token: The accepted token.
    """

    def __init__(self, page_size: int = 1_000, now: datetime = START) -> None:
        """Open the port, with an empty library."""
        super().__init__(_Handler)
        self.now = now
        self.page_size = page_size
        self.repeats_pages = False
        self.script: deque[Reply] = deque()
        self.on_request: Callable[[int], object] = lambda _: None
        self.calls: list[Call] = []
        self.token = TOKEN
        self._books: dict[int, Body] = {}
        self._touched: dict[int, datetime] = {}
        self._lock = threading.RLock()

    @property
    def base_url(self) -> str:
        """The base URL for a client's settings."""
        return f"http://127.0.0.1:{self.server_port}/api/v2"

    def advance(self, **time: float) -> None:
        """Advance the clock."""
        self.now += timedelta(**time)

    def put_book(self, book_id: int, *texts: str, **fields: Any) -> None:
        """Add a book, or change its fields. Each text is a highlight, at its position."""
        with self._lock:
            book = self._books.get(book_id, _make_book(book_id))
            self._books[book_id] = book | fields
            self._touched[book_id] = self.now
            for position, text in enumerate(texts):
                self.put_highlight(book_id, position, text)

    def put_highlight(self, book_id: int, position: int, text: str, **fields: Any) -> None:
        """Add or edit a highlight. Its id depends on the book and the position."""
        with self._lock:
            highlights = self._books[book_id]["highlights"]
            highlight = _make_highlight(book_id, position, text, self.now)
            highlight_id = highlight["id"]
            if highlight_id in highlights:
                highlight["created_at"] = highlights[highlight_id]["created_at"]
            highlights[highlight_id] = highlight | fields

    def delete_highlight(self, book_id: int, position: int) -> None:
        """Mark a highlight as deleted."""
        with self._lock:
            highlight = self._books[book_id]["highlights"][_get_highlight_id(book_id, position)]
            highlight |= {"is_deleted": True, "updated_at": _to_iso(self.now)}

    def delete_book(self, book_id: int) -> None:
        """Mark a book and its highlights as deleted."""
        with self._lock:
            self._books[book_id]["is_deleted"] = True
            self._touched[book_id] = self.now
            for highlight in self._books[book_id]["highlights"].values():
                highlight |= {"is_deleted": True, "updated_at": _to_iso(self.now)}

    def remove(self, book_id: int) -> None:
        """Remove a book, so that no page says that it existed."""
        with self._lock:
            del self._books[book_id]

    def make_page(self, **query: str) -> Body:
        """Return a page of the export: by default, the first page of the whole library."""
        with self._lock:
            books = list(self._find_matching_books(query))
        cursor = query.get("pageCursor", "0").removesuffix("-again")
        pages = list(_split_into_pages(books, self.page_size)) or [[]]
        number = int(cursor)
        next_cursor = str(number + 1) if number + 1 < len(pages) else None
        if self.repeats_pages and not query.get("pageCursor", "").endswith("-again"):
            next_cursor = f"{cursor}-again"
        return {"count": len(books), "nextPageCursor": next_cursor, "results": pages[number]}

    def arrive(self, call: Call) -> Reply:
        """Record a request, and choose its reply."""
        with self._lock:
            self.calls.append(call)
            number = len(self.calls)
            reply = self.script.popleft() if self.script else Reply()
        self.on_request(number)
        return reply

    def answer(self, call: Call, reply: Reply) -> Reply:
        """Check a request as Readwise does, and return its page."""
        if call.authorization != f"Token {self.token}":
            return Reply(401, b'{"detail": "Invalid token."}')
        if call.path != "/api/v2/export/":
            return Reply(404, b"<html>Not Found</html>")
        page = reply.alter(self.make_page(**call.query))
        return Reply(reply.status, json.dumps(page).encode(), reply.headers, reply.missing)

    def _find_matching_books(self, query: dict[str, str]) -> Iterator[Body]:
        since = datetime.fromisoformat(query["updatedAfter"]) if "updatedAfter" in query else None
        book_ids = query["ids"].split(",") if "ids" in query else None
        includes_deleted = query.get("includeDeleted") == "true"
        for book_id, book in sorted(self._books.items()):
            if book_ids is not None and str(book["user_book_id"]) not in book_ids:
                continue
            if book["is_deleted"] and not includes_deleted:
                continue
            highlights = [
                highlight
                for highlight in book["highlights"].values()
                if (includes_deleted or not highlight["is_deleted"])
                and (since is None or datetime.fromisoformat(highlight["updated_at"]) > since)
            ]
            if highlights or since is None or self._touched[book_id] > since:
                yield book | {"highlights": highlights}


def _split_into_pages(books: list[Body], size: int) -> Iterator[list[Body]]:
    """Split books into pages of this many highlights. A book without highlights counts as one."""
    page: list[Body] = []
    capacity = size
    for book in books:
        remaining = book["highlights"]
        while True:
            highlights, remaining = remaining[:capacity], remaining[capacity:]
            page.append(book | {"highlights": highlights})
            capacity -= max(1, len(highlights))
            if capacity <= 0:
                yield page
                page, capacity = [], size
            if not remaining:
                break
    if page:
        yield page


def _make_book(book_id: int) -> Body:
    return {
        "user_book_id": book_id,
        "is_deleted": False,
        "title": f"Book {book_id}",
        "author": "Ann Helm",
        "readable_title": f"Book {book_id}",
        "source": "kindle",
        "cover_image_url": "https://example.com/cover.jpg",
        "unique_url": None,
        "summary": None,
        "book_tags": [{"id": 1, "name": "sea"}],
        "category": "books",
        "document_note": None,
        "readwise_url": f"https://readwise.io/bookreview/{book_id}",
        "source_url": None,
        "external_id": None,
        "asin": "B000000000",
        "highlights": {},
    }


def _make_highlight(book_id: int, position: int, text: str, now: datetime) -> Body:
    highlight_id = _get_highlight_id(book_id, position)
    return {
        "id": highlight_id,
        "is_deleted": False,
        "text": text,
        "location": position,
        "location_type": "location",
        "note": "",
        "color": "yellow",
        "highlighted_at": "2024-05-31T16:41:53.186Z",
        "created_at": _to_iso(now),
        "updated_at": _to_iso(now),
        "external_id": None,
        "end_location": None,
        "url": None,
        "book_id": book_id,
        "tags": [],
        "is_favorite": False,
        "is_discard": False,
        "readwise_url": f"https://readwise.io/open/{highlight_id}",
    }


def _get_highlight_id(book_id: int, position: int) -> int:
    return book_id * 1_000 + position


def _to_iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Handler(LoopbackHandler):
    protocol_version = "HTTP/1.1"
    server: FakeReadwise

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        call = Call(url.path, query, self.headers["Authorization"], time.monotonic())
        reply = self.server.arrive(call)
        self.server.pause(reply.pause)
        with contextlib.suppress(ConnectionError):  # the client may have stopped waiting
            self._send(reply if reply.body is not None else self.server.answer(call, reply))

    def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002 - its own
        return format_datetime(self.server.now, usegmt=True)

    def _send(self, reply: Reply) -> None:
        headers = reply.headers | {"Content-Type": "application/json"}
        self.send_answer(reply.status, reply.body or b"", headers, reply.missing)

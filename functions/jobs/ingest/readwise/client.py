"""A client of the Readwise export: `GET /api/v2/export/`, see https://readwise.io/api_deets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.jobs.ingest.origin import OutOfTime
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES
from functions.jobs.ingest.readers.source_file import MEGABYTE
from shared.core.errors import CarrelError, InvalidInput, RateLimited, Unavailable
from shared.core.http import parse_retry_after, read_limited, retry_with_backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import httpx2
    from pydantic import SecretStr

    from shared.core.dates import Clock

ATTEMPT_SECONDS: Final = 60.0
"""The time limit of one request; Readwise needs seconds for a large page."""
RETRY_SECONDS: Final = 180.0
"""The time limit of all requests for one page."""
_REJECTED_STATUSES: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_RENEW: Final = "renew READWISE_TOKEN with one from https://readwise.io/access_token"


@dataclass(frozen=True, slots=True)
class ExportPage:
    """A page of books, each with some of its highlights.

    Attributes:
        books: The books, unvalidated.
        sent_at: The time of the response, by Readwise's clock.
        count: The number of books or highlights on all pages; 0 if the page does not say.
    """

    books: list[Any]
    sent_at: datetime
    count: int = 0


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    count: Any = 0
    results: list[Any]
    cursor: str | None = Field(default=None, alias="nextPageCursor")


class ReadwiseClient:
    """A client for one library and one run."""

    def __init__(  # noqa: PLR0913 - settings that differ between deployments and tests
        self,
        url: str,
        token: SecretStr,
        *,
        deadline: float,
        clock: Clock,
        attempt_seconds: float = ATTEMPT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Create the HTTP client. Nothing is requested yet.

        Args:
            url: The address of the API, up to `/export/`.
            deadline: When to stop waiting, on the event loop's clock.
            clock: The clock to use for responses without a date.
            attempt_seconds: The time limit of one request.
            retry_seconds: The time limit of all requests for one page.
        """
        import httpx2

        self._url = f"{url.rstrip('/')}/export/"
        self._token = token.get_secret_value()
        self._deadline = deadline
        self._clock = clock
        self._attempt_seconds = attempt_seconds
        self._retry_seconds = retry_seconds
        self._client = httpx2.AsyncClient(timeout=None)

    async def __aenter__(self) -> Self:
        """Enter the context."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def request_pages(
        self, *, updated_after: datetime | None = None, ids: Iterable[str] = ()
    ) -> AsyncIterator[ExportPage]:
        """Export books with their highlights, including deleted books and highlights.

        Args:
            updated_after: Export only highlights that changed after this time, with their books.
            ids: Export only these books, with all their highlights.

        Raises:
            OutOfTime: The deadline passes before the page arrives, or before a retry is allowed.
            InvalidInput: Readwise rejects the token, or there is no export at the address.
            Unavailable: Readwise does not answer, or the answer is not an export.
        """
        filters = {"includeDeleted": "true", "ids": ",".join(ids)}
        filters["updatedAfter"] = updated_after.isoformat() if updated_after else ""
        cursors = {""}
        cursor = ""
        while True:
            query = filters | {"pageCursor": cursor}
            answer, sent_at = await self._request_page(
                {key: value for key, value in query.items() if value}
            )
            yield ExportPage(answer.results, sent_at, _to_number(answer.count))
            cursor = answer.cursor or ""
            if not cursor:
                return
            if cursor in cursors:
                raise Unavailable("Readwise sends the same page again and again: try again later.")
            cursors.add(cursor)

    async def _request_page(self, query: dict[str, str]) -> tuple[_Answer, datetime]:
        """Request a page until it is answered, with the pauses that Readwise asks for."""
        loop = asyncio.get_running_loop()
        while True:
            until = min(self._deadline, loop.time() + self._retry_seconds)
            try:
                return await retry_with_backoff(
                    partial(self._attempt, query, until), deadline=until
                )
            except RateLimited as limited:
                wait = limited.retry_after or 0.0
                if loop.time() + wait >= self._deadline:
                    raise OutOfTime from None
            except Unavailable:
                if until == self._deadline:
                    raise OutOfTime from None
                raise
            await asyncio.sleep(wait)

    async def _attempt(self, query: dict[str, str], until: float) -> tuple[_Answer, datetime]:
        try:
            async with asyncio.timeout_at(
                min(until, asyncio.get_running_loop().time() + self._attempt_seconds)
            ):
                response, content = await self._send_request(query)
        except TimeoutError:
            raise Unavailable("Readwise is too slow: try again later.") from None
        if not response.is_success:
            raise self._make_error(response)
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError:  # its message quotes private texts
            answer = None
        if answer is None:
            raise Unavailable("Readwise sent a response that is not an export: try again later.")
        return answer, self._parse_sent_at(response)

    async def _send_request(self, query: dict[str, str]) -> tuple[httpx2.Response, bytes]:
        import httpx2

        # The error of the HTTP client for an invalid header might quote the token.
        if not (self._token.isascii() and self._token.isprintable()) or " " in self._token:
            raise InvalidInput(f"READWISE_TOKEN is not an access token: {_RENEW}.")
        headers = {"Authorization": f"Token {self._token}"}
        failure: CarrelError
        try:
            async with self._client.stream(
                "GET", self._url, params=query, headers=headers
            ) as response:
                return response, await _read_content(response)
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            failure = InvalidInput("READWISE_URL is not the address of the Readwise API.")
        except httpx2.HTTPError:
            failure = Unavailable("Readwise cannot be reached: try again later.")
        raise failure

    def _make_error(self, response: httpx2.Response) -> CarrelError:
        status = response.status_code
        wait = parse_retry_after(response.headers.get("retry-after", ""), self._clock())
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return RateLimited("Readwise asks us to wait: try again later.", retry_after=wait)
        if status in _REJECTED_STATUSES:
            return InvalidInput(f"Readwise refuses the access token ({status}): {_RENEW}.")
        if response.is_server_error or status == HTTPStatus.REQUEST_TIMEOUT:
            return Unavailable(f"Readwise fails ({status}): try again later.", retry_after=wait)
        return InvalidInput(f"Readwise refuses the request ({status}): check READWISE_URL.")

    def _parse_sent_at(self, response: httpx2.Response) -> datetime:
        try:
            date = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            return self._clock()
        return date.replace(tzinfo=date.tzinfo or UTC)


async def _read_content(response: httpx2.Response) -> bytes:
    """Read the body piece by piece, because a compressed megabyte may decode to a gigabyte.

    Raises:
        InvalidInput: The body is larger than an export can be.
    """
    content = await read_limited(response.aiter_bytes(), MAX_BYTES)
    if content is None:
        megabytes = MAX_BYTES // MEGABYTE
        raise InvalidInput(f"Readwise sent more than {megabytes} MB at once: check READWISE_URL.")
    return content


def _to_number(count: Any) -> int:
    return count if isinstance(count, int) else 0

"""Readwise's export: `GET /api/v2/export/`, page by page, as https://readwise.io/api_deets says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.jobs.ingest.readers.decoding import MEGABYTE
from functions.jobs.ingest.readers.readwise_export import MAX_BYTES
from shared.core.errors import CarrelError, InvalidInput, RateLimited, Unavailable
from shared.core.http import parse_retry_after, read_at_most, retry_with_backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import httpx2
    from pydantic import SecretStr

    from shared.core.dates import Clock

ATTEMPT_SECONDS: Final = 60.0
"""How long one request may take; Readwise needs seconds for a large page."""
PATIENCE_SECONDS: Final = 180.0
"""How long a page is asked for again that does not come."""
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_RENEW: Final = "renew READWISE_TOKEN with one from https://readwise.io/access_token"


class OutOfTime(Exception):
    """The run has no time left to wait for Readwise."""


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Some of the books, each with some of its highlights.

    Attributes:
        books: As they came: any of them may be broken.
        sent_at: When, by Readwise's clock.
        count: How many books or highlights there are on all pages, as it says; 0: it does not.
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
    """A Readwise library, for the length of one run."""

    def __init__(  # noqa: PLR0913 - what differs between deployments and tests, by name
        self,
        url: str,
        token: SecretStr,
        *,
        deadline: float,
        clock: Clock,
        attempt_seconds: float = ATTEMPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: The address of the API, up to `/export/`.
            token: The library's access token.
            deadline: When to stop waiting, on the event loop's clock.
            clock: What time it is, where Readwise does not say.
            attempt_seconds: How long one request may take.
            patience_seconds: How long a page is asked for again.
        """
        import httpx2

        self._url = f"{url.rstrip('/')}/export/"
        self._token = token.get_secret_value()
        self._deadline = deadline
        self._clock = clock
        self._attempt_seconds = attempt_seconds
        self._patience_seconds = patience_seconds
        self._client = httpx2.AsyncClient(timeout=None)

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def pages(
        self, *, updated_after: datetime | None = None, ids: Iterable[str] = ()
    ) -> AsyncIterator[ExportPage]:
        """Books with their highlights, those that were deleted too.

        Args:
            updated_after: Only highlights that changed since, with their books.
            ids: Only these books, with all of their highlights.

        Raises:
            OutOfTime: The deadline comes before the page, or before Readwise lets us ask again.
            InvalidInput: Readwise refuses the token, or there is no export at the address.
            Unavailable: It does not answer, or with nothing that is an export.
        """
        wanted = {"includeDeleted": "true", "ids": ",".join(ids)}
        wanted["updatedAfter"] = updated_after.isoformat() if updated_after else ""
        cursors = {""}
        cursor = ""
        while True:
            query = wanted | {"pageCursor": cursor}
            answer, sent_at = await self._page({key: each for key, each in query.items() if each})
            yield ExportPage(answer.results, sent_at, _number(answer.count))
            cursor = answer.cursor or ""
            if not cursor:
                return
            if cursor in cursors:
                raise Unavailable("Readwise's pages lead in a circle: try again later.")
            cursors.add(cursor)

    async def _page(self, query: dict[str, str]) -> tuple[_Answer, datetime]:
        """Ask until there is an answer; wait for as long as Readwise tells us to."""
        loop = asyncio.get_running_loop()
        while True:
            until = min(self._deadline, loop.time() + self._patience_seconds)
            try:
                return await retry_with_backoff(partial(self._once, query, until), deadline=until)
            except RateLimited as limited:
                wait = limited.retry_after or 0.0
                if loop.time() + wait >= self._deadline:
                    raise OutOfTime from None
            except Unavailable:
                if until == self._deadline:
                    raise OutOfTime from None
                raise
            await asyncio.sleep(wait)

    async def _once(self, query: dict[str, str], until: float) -> tuple[_Answer, datetime]:
        try:
            async with asyncio.timeout_at(
                min(until, asyncio.get_running_loop().time() + self._attempt_seconds)
            ):
                response, content = await self._ask(query)
        except TimeoutError:
            raise Unavailable("Readwise is too slow: try again later.") from None
        if not response.is_success:
            raise self._meaning(response)
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError:  # whose words quote what people read
            answer = None
        if answer is None:
            raise Unavailable("Readwise answers what is no export: try again later.")
        return answer, self._sent_at(response)

    async def _ask(self, query: dict[str, str]) -> tuple[httpx2.Response, bytes]:
        """Send a request, and take in what is answered, which is refused where it is too much."""
        import httpx2

        # The client's words on a header that cannot be sent might quote it.
        if not (self._token.isascii() and self._token.isprintable()) or " " in self._token:
            raise InvalidInput(f"READWISE_TOKEN is no access token: {_RENEW}.")
        headers = {"Authorization": f"Token {self._token}"}
        failure: CarrelError
        try:
            async with self._client.stream(
                "GET", self._url, params=query, headers=headers
            ) as response:
                return response, await _content(response)
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            failure = InvalidInput("READWISE_URL is no address of Readwise's API.")
        except httpx2.HTTPError:
            failure = Unavailable("Readwise cannot be reached: try again later.")
        raise failure

    def _meaning(self, response: httpx2.Response) -> CarrelError:
        """What it means to us that Readwise does not answer with books."""
        status = response.status_code
        wait = parse_retry_after(response.headers.get("retry-after", ""), self._clock())
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return RateLimited("Readwise lets us wait: try again later.", retry_after=wait)
        if status in _REFUSED:
            return InvalidInput(f"Readwise refuses the access token ({status}): {_RENEW}.")
        if response.is_server_error or status == HTTPStatus.REQUEST_TIMEOUT:
            return Unavailable(f"Readwise fails ({status}): try again later.", retry_after=wait)
        return InvalidInput(f"Readwise refuses what we ask ({status}): check READWISE_URL.")

    def _sent_at(self, response: httpx2.Response) -> datetime:
        try:
            date = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            return self._clock()
        return date.replace(tzinfo=date.tzinfo or UTC)


async def _content(response: httpx2.Response) -> bytes:
    """The body, decoded piece by piece: a megabyte on the wire may hold a thousand.

    Raises:
        InvalidInput: It is larger than what an export ever is.
    """
    content = await read_at_most(MAX_BYTES, response.aiter_bytes())
    if content is None:
        problem = f"Readwise answers with more than {MAX_BYTES // MEGABYTE} MB at once"
        raise InvalidInput(f"{problem}: check READWISE_URL.")
    return content


def _number(count: Any) -> int:
    return count if isinstance(count, int) else 0

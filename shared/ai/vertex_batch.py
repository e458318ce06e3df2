"""Embedding in bulk by batch prediction jobs of Vertex AI.

A job reads requests from Cloud Storage, one JSON object per line, and writes the answers in any
order. This module relies on Google's documentation of batch inference for Gemini embeddings:

- A request is `{"key", "request": {"content": {"parts": [{"text"}]}, "embed_content_config"}}`.
- Its answer is `{"key", "response": {"embedding": {"values"}}}`, in files ending in `.jsonl` below
  the destination. The answer to a failed request has a `status` or an `error` and no response. The
  older shape `{"instance", "predictions": [{"embeddings": {"values"}}], "status"}` is read, too.
- A job accepts 1,000,000 requests or 1 GB, and may wait for up to 72 hours.

Some answers contain all 3,072 numbers of a vector although fewer were requested. Vectors of these
models are nested (Kusupati et al., "Matryoshka Representation Learning", 2022): the first numbers,
scaled to length 1, are the shorter vector.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.ai.embedding import Vector, unit_vector
from shared.ai.retrying import ATTEMPTS_IN_TIME
from shared.ai.vertex_errors import (
    TRANSIENT_STATUSES,
    make_busy_error,
    make_configuration_error,
    make_timeout_error,
    make_unreachable_error,
    make_unreadable_error,
)
from shared.core.dates import utc_now
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, RateLimited
from shared.core.http import parse_retry_after, retry_with_backoff
from shared.core.telemetry import SpanKind, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.api_core.exceptions import GoogleAPICallError

    from shared.ai._vertex_batch import BatchJobClient
    from shared.ai.vertex_client import VertexEndpoint

ResultT = TypeVar("ResultT")

MODELS: Final = ("gemini-embedding-001",)
"""The jobs of these models use the format above."""
TIME_LIMIT: Final = 120.0
"""By default, a call may take this many seconds, including retries."""
ATTEMPT_SECONDS: Final = TIME_LIMIT / ATTEMPTS_IN_TIME
"""By default, a call waits this many seconds for a response."""
_GONE: Final = "JOB_STATE_GONE"
"""A job that the provider no longer knows has this state, which is Carrel's own."""
_FAILED: Final = frozenset(("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED", _GONE))
_DONE: Final = frozenset(("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED"))


class BatchProgress(Enum):
    """The progress of a batch job."""

    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch job."""

    progress: BatchProgress
    code: str


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One answer of a batch."""

    key: str
    vector: Vector | None


class VertexBatch:
    """Batch prediction jobs of one model. An instance makes one call at a time."""

    def __init__(
        self,
        endpoint: VertexEndpoint,
        *,
        model: str,
        dimension: int,
        time_limit: float = TIME_LIMIT,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """Store the configuration. The client, which is slow to import, loads on first use.

        Args:
            endpoint: The address of Vertex AI. The bucket should be in the same region.
            time_limit: The seconds that a call may take, including retries.
            attempt_seconds: The seconds to wait for one response.
        """
        self.model = model
        self.dimension = dimension
        self._endpoint = endpoint
        self._time_limit = time_limit
        self._attempt_seconds = attempt_seconds
        # A request may outlast its call by up to `attempt_seconds`. A single thread keeps the next
        # request from using the client at the same time.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vertex-batch")

    @staticmethod
    def require_package() -> None:
        """Check that the package of the client is installed, which most laptops do not need.

        Raises:
            InvalidInput: It is not.
        """
        if not find_spec("google.cloud.aiplatform_v1"):
            raise InvalidInput(
                "Bulk embedding needs a package that is not installed here: run `pip install"
                " google-cloud-aiplatform` (82 MB), or set BULK_BUCKET to nothing to embed online."
            )

    def make_request_line(self, key: str, text: str) -> bytes:
        """Make the line of the input file that requests a text's vector."""
        config = {
            "task_type": "RETRIEVAL_DOCUMENT",
            "output_dimensionality": self.dimension,
            "auto_truncate": True,
        }
        request = {"content": {"parts": [{"text": text}]}, "embed_content_config": config}
        return json.dumps({"key": key, "request": request}, ensure_ascii=False).encode() + b"\n"

    def parse_answer(self, line: bytes) -> BatchRow | None:
        """Parse a line of an output file. Return None if the line is not valid."""
        try:
            data = json.loads(line)
            key = str(data["key"] if "key" in data else data["instance"]["key"])
            return BatchRow(key, self._parse_vector(data))
        except (ValueError, LookupError, TypeError):
            return None

    def _parse_vector(self, data: dict[str, Any]) -> Vector | None:
        try:
            if "response" in data:
                values = data["response"]["embedding"]["values"]
            else:
                values = data["predictions"][0]["embeddings"]["values"]
            return unit_vector([float(value) for value in values[: self.dimension]], self.dimension)
        except (ValueError, LookupError, TypeError, PlatformFault):
            return None

    async def submit(self, name: str, source: str, destination: str) -> str:
        """Start a job, or find the job with this name, so that a retry costs nothing.

        Args:
            name: A unique name for the job.
            source: gs://bucket/object with the requests.
            destination: gs://bucket/prefix for the answers.

        Returns:
            The provider's name of the job.

        Raises:
            Unavailable: Vertex AI is down or slow.
            RateLimited: The quota of batch jobs is used up.
            InvalidInput: Vertex AI rejects the job.
            PlatformFault: Vertex AI is configured wrongly.
        """

        def attempt(client: BatchJobClient) -> str:
            # The job exists if a response was lost, or if an earlier run was killed.
            existing = client.find(name)
            return existing or client.create(name, self.model, source, destination)

        job = await self._call("submit_batch", attempt)
        if not job:
            raise PlatformFault("Vertex AI started a job without a name.")
        return job

    async def get_state(self, job: str) -> BatchState:
        """Load the state of a job.

        Raises:
            Unavailable: Vertex AI is down or slow.
            RateLimited: There are too many requests.
            PlatformFault: Vertex AI is configured wrongly.
        """
        from google.api_core.exceptions import NotFound

        def attempt(client: BatchJobClient) -> tuple[str, int]:
            try:
                return client.load_state(job)
            except NotFound:
                return _GONE, 0

        code, error_code = await self._call("get_batch_state", attempt)
        if code in _DONE:
            return BatchState(BatchProgress.DONE, code)
        if code in _FAILED:
            # Reports leave out the error's message, since it can quote what was sent.
            detail = f" (code {error_code})" if error_code else ""
            return BatchState(BatchProgress.FAILED, code + detail)
        return BatchState(BatchProgress.UNDER_WAY, code)

    async def cancel(self, job: str) -> None:
        """Cancel a job whose answers are no longer needed.

        Raises:
            CarrelError: Vertex AI cannot be reached or rejects the request.
        """
        await self._call("cancel_batch", lambda client: client.cancel(job))

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await asyncio.to_thread(self._client.close)
        self._worker.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _client(self) -> BatchJobClient:
        from shared.ai._vertex_batch import BatchJobClient

        return BatchJobClient(self._endpoint, self._attempt_seconds)

    async def _call(self, operation: str, attempt: Callable[[BatchJobClient], ResultT]) -> ResultT:
        """Make a call in a thread, and retry it with backoff after transient errors.

        Args:
            operation: The name of the call in its span.
        """
        deadline = asyncio.get_running_loop().time() + self._time_limit
        # The conventions have no name for batch jobs, and allow others than theirs.
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "gcp.vertex_ai",
            "gen_ai.request.model": self.model,
        }
        with span(f"{operation} {self.model}", attributes, kind=SpanKind.CLIENT):
            return await retry_with_backoff(
                partial(self._attempt_once, attempt, deadline), deadline=deadline
            )

    async def _attempt_once(
        self, attempt: Callable[[BatchJobClient], ResultT], deadline: float
    ) -> ResultT:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth import exceptions as auth
        from google.protobuf.json_format import ParseError
        from requests import RequestException, Timeout

        failure: CarrelError
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                return await loop.run_in_executor(self._worker, lambda: attempt(self._client))
        except GoogleAPICallError as error:
            failure = _map_error(error)
        except (TimeoutError, Timeout):
            failure = make_timeout_error()
        except (RequestException, auth.TransportError):
            failure = make_unreachable_error()
        except auth.GoogleAuthError as error:
            failure = (
                make_busy_error()
                if error.retryable
                else make_configuration_error(HTTPStatus.UNAUTHORIZED)
            )
        except (ParseError, UnicodeDecodeError, RecursionError):
            failure = make_unreadable_error()
        raise failure


def _map_error(error: GoogleAPICallError) -> CarrelError:
    headers = {} if error.response is None else error.response.headers
    retry_after = headers.get("Retry-After", "")
    if error.code == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(
            "The quota of Vertex AI for batch prediction jobs is used up: try again later, or ask"
            " Google for a higher quota.",
            retry_after=parse_retry_after(retry_after, utc_now()),
        )
    if error.code in TRANSIENT_STATUSES:
        return make_busy_error(retry_after)
    if error.code == HTTPStatus.BAD_REQUEST:
        return InvalidInput(
            "Vertex AI rejects the bulk embedding job: check BULK_BUCKET, VERTEX_LOCATION and"
            " EMBEDDING_MODEL."
        )
    return make_configuration_error(error.code)

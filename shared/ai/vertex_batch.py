"""Embedding in bulk: batch prediction jobs of Vertex AI, through the google-genai client.

A job reads requests from Cloud Storage, one JSON object per line, and writes the answers in any
order. This module relies on Google's documentation of batch inference for Gemini embeddings:

- A request is `{"key", "request": {"content": {"parts": [{"text"}]}, "embed_content_config"}}`.
- Its answer is `{"key", "response": {"embedding": {"values"}}}`, in files ending in `.jsonl` below
  the destination. A failed one has a `status` or an `error` and no response. The older shape
  `{"instance", "predictions": [{"embeddings": {"values"}}], "status"}` is read too.
- A job takes 1,000,000 requests or 1 GB, and may wait for up to 72 hours.

Some answers have all 3,072 numbers of a vector although fewer were requested. Vectors of these
models are nested (Kusupati et al., "Matryoshka Representation Learning", 2022): the first numbers,
scaled to length 1, are the shorter vector.

The google-cloud-aiplatform client would do the same, but requires google-genai below version 3, and
so cannot be installed together with the online embedding.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from shared.ai.embedding import Vector, unit_vector
from shared.ai.vertex_client import VertexClient
from shared.core.errors import InvalidInput, PlatformFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from google.genai.types import BatchJob

    from shared.ai.vertex_client import VertexEndpoint

    AnswerT = TypeVar("AnswerT")

MODELS: Final = ("gemini-embedding-001",)
"""The models whose jobs have the format above."""
TIME_LIMIT: Final = 120.0
"""Seconds that a call may take by default, including retries."""
_GONE: Final = "JOB_STATE_GONE"
"""Our name for the state of a job that the provider no longer knows."""
_FAILED: Final = frozenset(("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"))
_DONE: Final = frozenset(("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED"))
_REFUSED: Final = InvalidInput(
    "Vertex AI rejects the bulk embedding job: check BULK_BUCKET, VERTEX_LOCATION and VERTEX_MODEL."
)


class BatchProgress(Enum):
    """The progress of a batch job."""

    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch job.

    Attributes:
        progress: How far the job is.
        code: The provider's code for it.
    """

    progress: BatchProgress
    code: str


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One answer of a batch.

    Attributes:
        key: The key of the request.
        vector: The vector, or None if the request failed.
    """

    key: str
    vector: Vector | None


class VertexBatch:
    """Batch prediction jobs of one model. An instance belongs to the loop that first uses it."""

    def __init__(
        self,
        endpoint: VertexEndpoint,
        *,
        model: str,
        dimension: int,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        """Store the configuration. The client, which is slow to import, loads on first use.

        Args:
            endpoint: Where the service is; the bucket should be in the same region.
            model: The model's name.
            dimension: The length of its vectors.
            time_limit: Seconds that a call may take, including retries.
        """
        self.model = model
        self.dimension = dimension
        self._time_limit = time_limit
        self._vertex = VertexClient(endpoint, time_limit, None)

    def request(self, key: str, text: str) -> bytes:
        """Make the line of the input that requests a text's vector."""
        config = {
            "task_type": "RETRIEVAL_DOCUMENT",
            "output_dimensionality": self.dimension,
            "auto_truncate": True,
        }
        request = {"content": {"parts": [{"text": text}]}, "embed_content_config": config}
        return json.dumps({"key": key, "request": request}, ensure_ascii=False).encode() + b"\n"

    def parse_answer(self, line: bytes) -> BatchRow | None:
        """Parse a line of the output, or return None if it is not valid."""
        try:
            data = json.loads(line)
            key = str(data["key"] if "key" in data else data["instance"]["key"])
            return BatchRow(key, self._vector(data))
        except (ValueError, LookupError, TypeError):
            return None

    def _vector(self, data: dict[str, Any]) -> Vector | None:
        try:
            if "response" in data:
                values = data["response"]["embedding"]["values"]
            else:
                values = data["predictions"][0]["embeddings"]["values"]
            return unit_vector([float(value) for value in values[: self.dimension]], self.dimension)
        except (ValueError, LookupError, TypeError, PlatformFault):
            return None

    async def submit(self, name: str, source: str, destination: str) -> str:
        """Start a job, or find the one of this name, so that a retry costs nothing.

        Args:
            name: A unique name of the job.
            source: gs://bucket/object with the requests.
            destination: gs://bucket/prefix for the answers.

        Returns:
            The provider's name of the job.

        Raises:
            Unavailable: Vertex AI is down, slow or out of quota.
            InvalidInput: Vertex AI rejects the job.
            PlatformFault: Vertex AI is configured wrongly.
        """
        from google.genai.types import CreateBatchJobConfig, ListBatchJobsConfig

        batches = self._vertex.aio.batches
        by_name = ListBatchJobsConfig(filter=f'display_name="{name}"', page_size=1)

        async def attempt() -> BatchJob:
            # The job exists if an answer was lost, or if an earlier run was killed.
            async for job in await batches.list(config=by_name):
                return job
            config = CreateBatchJobConfig(display_name=name, dest=destination)
            return await batches.create(model=self.model, src=source, config=config)

        job = await self._call(attempt)
        if not job.name:
            raise PlatformFault("Vertex AI started a job without a name.")
        return job.name

    async def get_state(self, job: str) -> BatchState:
        """Load the state of a job.

        Raises:
            Unavailable: Vertex AI is down, slow or out of quota.
            PlatformFault: Vertex AI is configured wrongly.
        """
        from google.genai.errors import ClientError

        async def attempt() -> BatchJob | None:
            try:
                return await self._vertex.aio.batches.get(name=job)
            except ClientError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                raise

        batch_job = await self._call(attempt)
        if batch_job is None:
            return BatchState(BatchProgress.FAILED, _GONE)
        code = batch_job.state.value if batch_job.state else ""
        if code in _DONE:
            return BatchState(BatchProgress.DONE, code)
        if code in _FAILED:
            return BatchState(BatchProgress.FAILED, _with_error_code(code, batch_job))
        return BatchState(BatchProgress.UNDER_WAY, code)

    async def cancel(self, job: str) -> None:
        """Cancel a job whose answers are no longer needed.

        Raises:
            CarrelError: Vertex AI cannot be reached or rejects the request.
        """
        await self._call(lambda: self._vertex.aio.batches.cancel(name=job))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _call(self, attempt: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        from shared.ai._vertex import call_vertex

        deadline = asyncio.get_running_loop().time() + self._time_limit
        return await call_vertex(attempt, deadline=deadline, refusal=_REFUSED)


def _with_error_code(state: str, job: BatchJob) -> str:
    """Append the code of a failed job's error to its state, without the error's message."""
    code = job.error.code if job.error else None
    return f"{state} (code {code})" if code else state

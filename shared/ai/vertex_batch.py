"""Embeddings in bulk: batch prediction jobs of Vertex AI, through the google-genai client.

A job reads requests from Cloud Storage, one JSON object a line, and writes an answer for each, in
any order. What is relied on, as Google documents batch inference of Gemini embeddings:

- a request is `{"key", "request": {"content": {"parts": [{"text"}]}, "embed_content_config"}}`;
- its answer is `{"key", "response": {"embedding": {"values"}}}`, in files whose names end in
  `.jsonl` below the destination; one that failed has a `status` or an `error` and no response. The
  older shape, `{"instance", "predictions": [{"embeddings": {"values"}}], "status"}`, is read too;
- a job takes 1,000,000 requests or 1 GB, and may wait for up to 72 hours.

Some answers hold all 3,072 numbers of a vector of which fewer were asked for. Those of these models
are nested (Kusupati et al., "Matryoshka Representation Learning", 2022): the first of them, scaled
to length 1, are the shorter vector.

The client is google-genai's, not google-cloud-aiplatform's: the latter demands a google-genai below
3, and so cannot be installed beside what embeds texts one by one. The service is the same.
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

    Answer = TypeVar("Answer")

MODELS: Final = ("gemini-embedding-001",)
"""The models whose jobs speak as is written above."""
TIME_LIMIT: Final = 120.0
_GONE: Final = "JOB_STATE_GONE"
"""What we call the state of a job that the provider does not know any more."""
_FAILED: Final = frozenset(("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"))
_DONE: Final = frozenset(("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED"))
_REFUSED: Final = InvalidInput(
    "Vertex AI refuses to embed in bulk as it is asked: check BULK_BUCKET, VERTEX_LOCATION and"
    " VERTEX_MODEL."
)


class BatchProgress(Enum):
    """How far a job has come."""

    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class BatchState:
    """A job as it was found.

    Attributes:
        progress: How far it has come.
        said: What the provider calls that, as a code.
    """

    progress: BatchProgress
    said: str


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One answer.

    Attributes:
        key: The key of its request.
        vector: The vector; None where the provider made none.
    """

    key: str
    vector: Vector | None


class VertexBatch:
    """Batch prediction jobs for one model. An instance belongs to the loop it is first used in."""

    def __init__(
        self,
        endpoint: VertexEndpoint,
        *,
        model: str,
        dimension: int,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        """Connect to nothing yet: importing the client takes most of a second.

        Args:
            endpoint: Whom to ask; the bucket should lie in its region.
            model: The model's name.
            dimension: The length of its vectors.
            time_limit: Seconds that one call may take, retries and pauses included.
        """
        self.model = model
        self.dimension = dimension
        self._time_limit = time_limit
        self._vertex = VertexClient(endpoint, time_limit, None)

    def request(self, key: str, text: str) -> bytes:
        """A line that asks for a text's vector."""
        config = {
            "task_type": "RETRIEVAL_DOCUMENT",
            "output_dimensionality": self.dimension,
            "auto_truncate": True,
        }
        asked = {"content": {"parts": [{"text": text}]}, "embed_content_config": config}
        return json.dumps({"key": key, "request": asked}, ensure_ascii=False).encode() + b"\n"

    def answer(self, line: bytes) -> BatchRow | None:
        """What a line of the output says; None where that cannot be read."""
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
            return unit_vector([float(each) for each in values[: self.dimension]], self.dimension)
        except (ValueError, LookupError, TypeError, PlatformFault):
            return None

    async def submit(self, name: str, source: str, destination: str) -> str:
        """Start a job, or find the one of this name: asked again, nothing is paid twice.

        Args:
            name: Names the job, and no other.
            source: gs://bucket/object with the requests.
            destination: gs://bucket/prefix for the answers.

        Returns:
            What the provider calls it.

        Raises:
            Unavailable: Vertex AI is down, slow or out of quota.
            InvalidInput: It refuses such a job.
            PlatformFault: It is set up wrongly for us.
        """
        from google.genai.types import CreateBatchJobConfig, ListBatchJobsConfig

        batches = self._vertex.aio.batches
        wanted = ListBatchJobsConfig(filter=f'display_name="{name}"', page_size=1)

        async def attempt() -> BatchJob:
            # An answer that was lost, or a run that was killed, may have left the job behind.
            async for job in await batches.list(config=wanted):
                return job
            config = CreateBatchJobConfig(display_name=name, dest=destination)
            return await batches.create(model=self.model, src=source, config=config)

        job = await self._call(attempt)
        if not job.name:
            raise PlatformFault("Vertex AI started a job without a name.")
        return job.name

    async def look(self, job: str) -> BatchState:
        """How far a job has come.

        Raises:
            Unavailable: Vertex AI is down, slow or out of quota.
            PlatformFault: It is set up wrongly for us.
        """
        from google.genai.errors import ClientError

        async def attempt() -> BatchJob | None:
            try:
                return await self._vertex.aio.batches.get(name=job)
            except ClientError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                raise

        found = await self._call(attempt)
        if found is None:
            return BatchState(BatchProgress.FAILED, _GONE)
        said = found.state.value if found.state else ""
        if said in _DONE:
            return BatchState(BatchProgress.DONE, said)
        if said in _FAILED:
            return BatchState(BatchProgress.FAILED, _code(said, found))
        return BatchState(BatchProgress.UNDER_WAY, said)

    async def cancel(self, job: str) -> None:
        """Ask for an end to a job whose answers nobody wants any more.

        Raises:
            CarrelError: That cannot be asked now.
        """
        await self._call(lambda: self._vertex.aio.batches.cancel(name=job))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _call(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        from shared.ai._vertex import call

        deadline = asyncio.get_running_loop().time() + self._time_limit
        return await call(attempt, deadline=deadline, refused=_REFUSED)


def _code(said: str, job: BatchJob) -> str:
    """The state of a job that failed, with the code of its error but not its words."""
    code = job.error.code if job.error else None
    return f"{said} (code {code})" if code else said

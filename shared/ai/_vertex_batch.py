"""Batch prediction jobs of Vertex AI, through the generated client of google-cloud-aiplatform.

The package's own class `BatchPredictionJob` would do the same, but takes two and a half times as
long to import, needs 80 MB more, and is configured for the whole process. The REST transport is
used, so that `VERTEX_BASE_URL` works as it does for single embeddings.

The import takes seconds and calls block, so `vertex_batch` does both in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.api_core.client_options import ClientOptions
from google.cloud.aiplatform_v1 import (
    BatchPredictionJob,
    GcsDestination,
    GcsSource,
    JobServiceClient,
    ListBatchPredictionJobsRequest,
)

if TYPE_CHECKING:
    from shared.ai.vertex_client import VertexEndpoint

_FORMAT: Final = "jsonl"
_MULTI_REGIONS: Final = frozenset({"eu", "us"})
"""These locations span several regions, and have addresses of another form."""


class BatchJobClient:
    """A client for the batch prediction jobs of a project in a location."""

    def __init__(self, endpoint: VertexEndpoint, attempt_seconds: float) -> None:
        """Load the credentials.

        Args:
            attempt_seconds: The seconds to wait for a response. Nothing is retried.
        """
        self._parent = f"projects/{endpoint.project}/locations/{endpoint.location}"
        self._client = JobServiceClient(
            credentials=endpoint.credentials,
            transport="rest",
            client_options=ClientOptions(api_endpoint=get_address(endpoint)),
        )
        self._options: dict[str, Any] = {"retry": None, "timeout": attempt_seconds}

    def find(self, display_name: str) -> str | None:
        """Return the resource name of a job with this display name, or None if there is none."""
        request = ListBatchPredictionJobsRequest(
            parent=self._parent, filter=f'display_name="{display_name}"', page_size=1
        )
        jobs = self._client.list_batch_prediction_jobs(request, **self._options)
        return next((job.name for job in jobs), None)

    def create(self, display_name: str, model: str, source: str, destination: str) -> str:
        """Start a job for one of Google's models, and return the job's resource name."""
        job = BatchPredictionJob(
            display_name=display_name,
            model=f"publishers/google/models/{model}",
            input_config=BatchPredictionJob.InputConfig(
                instances_format=_FORMAT, gcs_source=GcsSource(uris=[source])
            ),
            output_config=BatchPredictionJob.OutputConfig(
                predictions_format=_FORMAT,
                gcs_destination=GcsDestination(output_uri_prefix=destination),
            ),
        )
        created = self._client.create_batch_prediction_job(
            parent=self._parent, batch_prediction_job=job, **self._options
        )
        return str(created.name)

    def load_state(self, name: str) -> tuple[str, int]:
        """Load the name of a job's state, and its error code, or 0 if it has no error."""
        job = self._client.get_batch_prediction_job(name=name, **self._options)
        # The client returns a state that it does not know as a plain number.
        return getattr(job.state, "name", str(job.state)), job.error.code

    def cancel(self, name: str) -> None:
        """Cancel a job."""
        self._client.cancel_batch_prediction_job(name=name, **self._options)

    def close(self) -> None:
        """Close the connections."""
        self._client.transport.close()


def get_address(endpoint: VertexEndpoint) -> str:
    """Return the configured address of Vertex AI, or Google's address for the location."""
    if endpoint.base_url:
        return endpoint.base_url.rstrip("/")
    if endpoint.location == "global":
        return "aiplatform.googleapis.com"
    if endpoint.location in _MULTI_REGIONS:
        return f"aiplatform.{endpoint.location}.rep.googleapis.com"
    return f"{endpoint.location}-aiplatform.googleapis.com"

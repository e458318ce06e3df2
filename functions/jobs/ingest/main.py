"""The Cloud Function of the `ingest` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.ingest.job import JOB

handle = serve_job(JOB)

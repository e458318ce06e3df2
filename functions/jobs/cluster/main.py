"""The Cloud Function of the `cluster` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.cluster.job import JOB

handle = serve_job(JOB)

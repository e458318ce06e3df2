"""The Cloud Function of the `trust` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.trust.job import JOB

handle = serve_job(JOB)

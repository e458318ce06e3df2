"""The Cloud Function of the `purge` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.purge.job import JOB

handle = serve_job(JOB)

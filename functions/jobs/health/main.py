"""The Cloud Function of the `health` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.health.job import JOB

handle = serve_job(JOB)

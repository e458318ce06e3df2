"""The Cloud Function of the `repair` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.repair.job import JOB

handle = serve_job(JOB)

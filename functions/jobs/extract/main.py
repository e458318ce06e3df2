"""The Cloud Function of the `extract` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.extract.job import JOB

handle = serve_job(JOB)

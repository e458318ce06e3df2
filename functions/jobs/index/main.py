"""The Cloud Function of the `index` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.index.job import JOB

handle = serve_job(JOB)

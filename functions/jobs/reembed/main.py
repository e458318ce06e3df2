"""The Cloud Function of the `reembed` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.reembed.job import JOB

handle = serve_job(JOB)

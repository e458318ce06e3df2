"""The Cloud Function of the `embed` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.embed.job import JOB

handle = serve_job(JOB)

"""The Cloud Function of the `cards` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.cards.job import JOB

handle = serve_job(JOB)

"""The Cloud Function of the `ingest_materials` job."""

from shared.runtime.serving import serve_job  # isort: split

from functions.jobs.ingest_materials.job import JOB

handle = serve_job(JOB)

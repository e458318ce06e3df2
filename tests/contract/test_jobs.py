"""Every job declares a name, a schedule, a time limit and a lease that follow the rules."""

import inspect
import re
from pathlib import Path

import pytest

from infra.build.discovery import jobs
from shared.runtime.job import Job

JOBS = jobs()
CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""The ranges of minute, hour, day of the month, month and day of the week."""
CRON_PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/[1-9]\d*)?")

every_job = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)


def find_job_folder(job: Job) -> Path:
    return Path(inspect.getfile(job.run)).parent


def is_cron_field(field: str, low: int, high: int) -> bool:
    """Return whether a field lists only numbers from `low` to `high`, their ranges, and steps."""
    matches = [CRON_PART.fullmatch(part) for part in field.split(",")]
    if not all(matches):
        return False
    ranges = [[int(end) for end in match.groups() if end] for match in matches if match]
    return all(ends == sorted(ends) and all(low <= end <= high for end in ends) for ends in ranges)


def test_jobs_are_discovered() -> None:
    assert {"embed", "ingest"} <= {job.name for job in JOBS}


@every_job
def test_a_jobs_name_is_its_folder(job: Job) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", job.name)
    assert find_job_folder(job).name == job.name


@every_job
def test_a_jobs_folder_has_a_declaration_and_no_entry_point(job: Job) -> None:
    """The build generates `main.py` in another folder."""
    names = {path.name for path in find_job_folder(job).glob("*.py")}
    assert "job.py" in names
    assert "main.py" not in names


@every_job
def test_a_job_has_a_title(job: Job) -> None:
    assert job.title
    assert job.title.strip() == job.title


@pytest.mark.parametrize("job", [job for job in JOBS if job.schedule], ids=lambda job: job.name)
def test_a_schedule_has_the_five_fields_of_cron(job: Job) -> None:
    fields = job.schedule.split(" ")
    assert len(fields) == len(CRON_RANGES)
    invalid = [
        field
        for field, (low, high) in zip(fields, CRON_RANGES, strict=True)
        if not is_cron_field(field, low, high)
    ]
    assert invalid == []


@every_job
def test_a_run_ends_within_cloud_schedulers_deadline(job: Job) -> None:
    assert 0 < job.timeout <= 30 * 60


@every_job
def test_run_and_total_are_asynchronous(job: Job) -> None:
    assert inspect.iscoroutinefunction(job.run)
    assert inspect.iscoroutinefunction(job.total)


@every_job
def test_run_takes_a_context_and_a_budget_and_total_a_context(job: Job) -> None:
    assert list(inspect.signature(job.run).parameters) == ["ctx", "budget"]
    assert list(inspect.signature(job.total).parameters) == ["ctx"]


@every_job
def test_run_has_a_docstring(job: Job) -> None:
    assert inspect.getdoc(job.run)


def test_only_jobs_that_write_the_same_fields_share_a_lease() -> None:
    assert len({job.name for job in JOBS}) == len(JOBS)
    shared_leases = {job.name: job.lease for job in JOBS if job.lease}
    assert shared_leases == {"reembed": "embed", "repair": "index"}

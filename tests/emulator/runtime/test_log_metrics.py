"""The log lines of real calls and runs count in the log-based metrics.

Cloud Logging computes these metrics from filters and extractors, which `extract_values` and
`extract_labels` apply to a line as Cloud Logging does.
"""

import json
import time
from itertools import count
from typing import Any

import pytest
from pydantic import SecretStr

from functions.gateway.calls.call_log import hash_task, log_call
from functions.gateway.catalog import Catalog
from infra.local.inline import InlineDispatcher
from shared.accounts.keyring import Keyring
from shared.core.caller import Caller
from shared.pipeline.worker import run_isolated
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Report, run_job
from shared.runtime.messages import CallRequest
from tests.support.jobs import make_job
from tests.support.knowledge import BAKING, store_sources
from tests.support.log_metrics import METRICS, extract_labels, extract_values, parse_log_entry

CALLER = Caller.of("ada", task="essay")
KEYRING = Keyring([SecretStr("s" * 32)])


@pytest.fixture
async def store_baking(ctx: Context) -> None:
    await store_sources(ctx, BAKING)


async def run_call(app: App, name: str, arguments: dict[str, Any]) -> None:
    tool = Catalog.load().get(name, CALLER)
    assert tool
    request = CallRequest(
        call_id="c-1", arguments=arguments, caller=CALLER, deadline=time.time() + 30
    )
    began = time.perf_counter()
    answer = await InlineDispatcher(app).call(tool, request)
    log_call(tool, request, answer, KEYRING, seconds=time.perf_counter() - began)


@pytest.mark.requirement("001-O2")
@pytest.mark.usefixtures("store_baking")
async def test_a_search_counts_in_all_call_metrics(
    app: App, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each reading of the clock is 1 ms later, since some parts take less than that.
    monkeypatch.setattr(time, "perf_counter", map((0.001).__mul__, count()).__next__)
    await run_call(app, "search_kb", {"query": "how to knead"})
    [line] = capsys.readouterr().err.splitlines()
    values = extract_values(line)
    call_metrics = [metric["name"] for metric in METRICS if '"tool_call"' in metric["filter"]]
    assert list(values) == call_metrics
    assert values.pop("tool_calls_total") == 1
    latency = values.pop("tool_latency_seconds")
    assert 0 < latency < 30
    for latency_of_part in values.values():
        assert 0 < latency_of_part <= latency


async def test_a_call_that_fails_counts_with_its_code(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_call(app, "get_chunk", {"chunk_id": "unknown"})
    [line] = capsys.readouterr().err.splitlines()
    total, latency, *_ = METRICS
    labels = {"tool": "get_chunk", "outcome": "error"}
    assert extract_labels(total, parse_log_entry(line)) == labels | {"code": "NOT_FOUND"}
    assert extract_labels(latency, parse_log_entry(line)) == labels
    assert extract_values(line).keys() == {"tool_calls_total", "tool_latency_seconds"}


@pytest.mark.requirement("003-L3")
async def test_a_call_with_invalid_arguments_warns_and_names_them(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"title": "", "priority": "essay", "essay": "essay"}
    await run_call(app, "add_task", arguments)
    line = capsys.readouterr().err
    entry = json.loads(line)
    assert entry["severity"] == "WARNING"
    assert entry["code"] == "VALIDATION_ERROR"
    assert entry["invalid"] == ["priority", "title"]
    assert "essay" not in line.replace(hash_task("essay", "ada", KEYRING), "")
    assert extract_values(line).keys() == {"tool_calls_total", "tool_latency_seconds"}


async def test_a_run_counts_with_its_time_and_failures(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(_context: Context, _budget: Budget) -> Report:
        return Report(failures=[Failure("shelf 3", "too high")])

    await run_job(make_job(run, "dust"), app)
    [line] = capsys.readouterr().err.splitlines()
    values = extract_values(line)
    assert values.keys() == {"job_runs_total", "job_duration_seconds", "job_failures"}
    assert values["job_runs_total"] == 1
    assert values["job_failures"] == 1
    [runs] = [metric for metric in METRICS if metric["name"] == "job_runs_total"]
    assert extract_labels(runs, parse_log_entry(line)) == {"job": "dust", "outcome": "finished"}


async def test_an_isolated_failure_counts(ctx: Context, capsys: pytest.CaptureFixture[str]) -> None:
    async def fail() -> None:
        raise ValueError("a stored field is invalid")

    assert not await run_isolated("shelf 3", fail(), ctx, Report())
    [line] = capsys.readouterr().err.splitlines()
    assert extract_values(line) == {"set_apart_total": 1}


@pytest.mark.requirement("001-L2")
async def test_a_line_has_caller_and_tool_but_no_content(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_call(app, "get_stats", {"a secret": "a secret"})
    [line] = capsys.readouterr().err.splitlines()
    entry = parse_log_entry(line)
    expected_fields = {
        "tool": "get_stats",
        "call_id": "c-1",
        "user": "ada",
        "task": hash_task("essay", "ada", KEYRING),
        "outcome": "error",
        "code": "VALIDATION_ERROR",
        "price": 0,
        "arguments": {"(unknown)": len('"a secret"')},
        "documents_read": 0,
        "documents_written": 0,
        "round_trips": 0,
    }
    assert expected_fields.items() <= entry["jsonPayload"].items()
    assert entry["severity"] == "WARNING"
    assert "secret" not in line


def test_other_lines_do_not_count_in_a_metric() -> None:
    line = '{"message": "tool_unreachable", "tool": "get_chunk", "seconds": 1}'
    assert extract_values(line) == {}


@pytest.mark.requirement("001-O2")
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
def test_every_label_is_declared_and_extracted(metric: dict[str, Any]) -> None:
    """The type of a metric matches its name, and the longest call has a bucket."""
    descriptor = metric["metricDescriptor"]
    assert [label["key"] for label in descriptor["labels"]] == list(metric["labelExtractors"])
    suffix = metric["name"].rpartition("_")[2]
    units = {"total": "1", "seconds": "s", "failures": "1"}
    assert descriptor["metricKind"] == "DELTA"
    assert descriptor["valueType"] == ("INT64" if suffix == "total" else "DISTRIBUTION")
    assert descriptor["unit"] == units[suffix]
    assert ("valueExtractor" in metric) == (suffix != "total")
    if options := metric.get("bucketOptions"):
        buckets = options["exponentialBuckets"]
        upper_bound = buckets["scale"] * buckets["growthFactor"] ** buckets["numFiniteBuckets"]
        assert upper_bound > 61  # seconds; the gateway waits for a minute at most

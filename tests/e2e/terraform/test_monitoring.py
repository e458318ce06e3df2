"""Metrics, alerts and the dashboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.log_metrics import METRICS

if TYPE_CHECKING:
    from tests.support.terraform_state import State

pytestmark = pytest.mark.slow

OWN_METRIC = re.compile(r"logging_googleapis_com:user_(\w+?)(?:_bucket|_sum)?\{")


def test_log_metrics_are_created_as_declared(state: State) -> None:
    expected = {
        metric["name"]: (
            metric["filter"],
            metric["labelExtractors"] or None,
            metric.get("valueExtractor"),
            metric["metricDescriptor"]["valueType"],
            sorted(label["key"] for label in metric["metricDescriptor"]["labels"]),
            metric.get("bucketOptions", {}).get("exponentialBuckets", {}).get("numFiniteBuckets"),
        )
        for metric in METRICS
    }
    metrics = {}
    for resource in state.resources["google_logging_metric"]:
        [descriptor] = resource.values["metric_descriptor"]
        buckets = resource.block["bucket_options"]
        metrics[resource.key] = (
            resource.values["filter"],
            resource.values["label_extractors"] or None,
            resource.values["value_extractor"],
            descriptor["value_type"],
            sorted(label["key"] for label in descriptor["labels"]),
            buckets["exponential_buckets"]["num_finite_buckets"] if buckets else None,
        )
    assert metrics == expected


def test_requests_with_a_query_are_not_in_googles_logs(state: State) -> None:
    """The addresses of the console hold what people search for."""
    [exclusion] = state.resources["google_logging_project_exclusion"]
    conditions = exclusion.values["filter"].split(" AND ")
    assert conditions == [
        'log_id("run.googleapis.com/requests")',
        'resource.labels.service_name="carrel-gateway"',
        'httpRequest.requestUrl:"?"',
    ]


def test_alerts_and_charts_query_existing_metrics(state: State) -> None:
    alerts = [
        resource.block["conditions"]["condition_prometheus_query_language"]["query"]
        for resource in state.resources["google_monitoring_alert_policy"]
    ]
    [dashboard] = state.resources["google_monitoring_dashboard"]
    names = set(OWN_METRIC.findall(" ".join([*alerts, dashboard.values["dashboard_json"]])))
    assert names <= {metric["name"] for metric in METRICS}
    assert {"tool_calls_total", "job_runs_total", "set_apart_total"} <= names


def test_every_alert_goes_to_the_configured_address(state: State) -> None:
    [channel] = state.resources["google_monitoring_notification_channel"]
    assert channel.values["labels"] == {"email_address": "ada@example.com"}
    policies = state.resources["google_monitoring_alert_policy"]
    assert len(policies) == 6
    for policy in policies:
        assert policy.values["notification_channels"] == [channel.values["id"]]


def test_a_daily_job_raises_an_alert_after_a_day(state: State) -> None:
    daily = {
        function["name"]
        for function in state.functions.values()
        if function["schedule"].endswith(" * * *")
    }
    [policy] = [
        resource
        for resource in state.resources["google_monitoring_alert_policy"]
        if resource.key == "jobs_do_not_finish"
    ]
    query = policy.block["conditions"]["condition_prometheus_query_language"]["query"]
    [names] = re.findall(r'job=~"([^"]*)"', query)
    assert set(names.split("|")) == daily
    assert query.endswith(f"< {len(daily)}")


def test_a_budget_sends_mail_before_it_is_spent(state: State) -> None:
    [budget] = state.resources["google_billing_budget"]
    assert budget.block["amount"]["specified_amount"]["units"] == "10"
    thresholds = [
        (rule["threshold_percent"], rule["spend_basis"])
        for rule in budget.values["threshold_rules"]
    ]
    assert thresholds == [(0.5, None), (0.9, None), (1, None), (1, "FORECASTED_SPEND")]

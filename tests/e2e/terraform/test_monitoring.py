"""Terraform creates the metrics of the log, alerts on them, and a dashboard."""

from __future__ import annotations

import re

import pytest

from tests.e2e.terraform.test_functions import wrap_in_list
from tests.support.log_metrics import METRICS
from tests.support.terraform_state import State

pytestmark = pytest.mark.slow

OWN_METRIC = re.compile(r"logging_googleapis_com:user_(\w+?)(?:_bucket|_sum)?\{")
"""The name of a metric of Carrel in a PromQL query."""


def test_log_metrics_are_created_as_declared(state: State) -> None:
    created_metrics = {
        resource.key: resource.block for resource in state.resources["google_logging_metric"]
    }
    assert created_metrics.keys() == {metric["name"] for metric in METRICS}
    for declared in METRICS:
        created = created_metrics[declared["name"]]
        assert created["filter"] == declared["filter"]
        assert (created["label_extractors"] or {}) == declared["labelExtractors"]
        assert created["value_extractor"] == declared.get("valueExtractor")

        descriptor = created["metric_descriptor"]
        assert descriptor["value_type"] == declared["metricDescriptor"]["valueType"]
        labels = wrap_in_list(descriptor["labels"])
        declared_labels = declared["metricDescriptor"]["labels"]
        assert sorted(label["key"] for label in labels) == sorted(
            label["key"] for label in declared_labels
        )

        buckets = created["bucket_options"]
        count = buckets["exponential_buckets"]["num_finite_buckets"] if buckets else None
        declared_buckets = declared.get("bucketOptions", {}).get("exponentialBuckets", {})
        assert count == declared_buckets.get("numFiniteBuckets")


def test_requests_with_a_query_are_not_in_googles_logs(state: State) -> None:
    """The addresses of the console contain what people search for."""
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
    assert len(policies) == 5
    for policy in policies:
        assert policy.values["notification_channels"] == [channel.values["id"]]


def test_an_alert_covers_all_jobs_that_run_at_least_daily(state: State) -> None:
    daily_jobs = {
        function["name"]
        for function in state.functions.values()
        if function["schedule"].endswith(" * * *")  # on every day of the month and of the week
    }
    policies = state.resources["google_monitoring_alert_policy"]
    [policy] = [policy for policy in policies if policy.key == "jobs_do_not_finish"]
    query = policy.block["conditions"]["condition_prometheus_query_language"]["query"]
    [names] = re.findall(r'job=~"([^"]*)"', query)
    assert set(names.split("|")) == daily_jobs
    assert "[25h]" in query  # a day and an hour, because runs take time
    assert query.endswith(f"< {len(daily_jobs)}")


def test_a_budget_sends_mail_before_it_is_spent(state: State) -> None:
    [budget] = state.resources["google_billing_budget"]
    [channel] = state.resources["google_monitoring_notification_channel"]
    assert budget.block["all_updates_rule"]["monitoring_notification_channels"] == [
        channel.values["id"]
    ]
    assert budget.block["amount"]["specified_amount"]["units"] == "10"
    thresholds = [
        (rule["threshold_percent"], rule["spend_basis"])
        for rule in budget.values["threshold_rules"]
    ]
    assert thresholds == [(0.5, None), (0.9, None), (1, None), (1, "FORECASTED_SPEND")]

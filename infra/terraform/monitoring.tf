locals {
  metrics = { for metric in jsondecode(file("${path.module}/../build/log_metrics.json")) : metric.name => metric }

  # The names of Carrel's metrics in PromQL, such as local.promql["job_runs_total"].
  # https://cloud.google.com/monitoring/promql/promql-mapping
  promql             = { for name in keys(local.metrics) : name => "logging_googleapis_com:user_${name}" }
  cloud_run_resource = "monitored_resource=\"cloud_run_revision\""

  # Jobs that run at least daily: the day fields of their schedule are *.
  daily = [for each in values(local.jobs) : each.name if endswith(each.schedule, " * * *")]

  alerts = {
    gateway_fails = {
      title = "Gateway errors"
      query = "sum(increase(run_googleapis_com:request_count{${local.cloud_run_resource},service_name=\"carrel-gateway\",response_code_class=\"5xx\"}[10m])) > 5"
      what  = "The gateway answered more than five requests in ten minutes with 5xx. See the log of carrel-gateway."
    }
    tools_fail = {
      title = "Tool errors"
      query = "sum by (tool, code) (increase(${local.promql["tool_calls_total"]}{${local.cloud_run_resource},code=~\"INTERNAL_ERROR|UNAVAILABLE\"}[15m])) > 5"
      what  = "More than five calls of a tool in fifteen minutes failed with INTERNAL_ERROR or UNAVAILABLE. See the log of carrel-<tool>."
    }
    jobs_stop = {
      title = "A job stopped with an error"
      query = "sum by (job) (increase(${local.promql["job_runs_total"]}{${local.cloud_run_resource},outcome=\"stopped\"}[1h])) > 0"
      what  = "`carrel jobs show <job>` shows the error. The next run continues where this one stopped."
    }
    jobs_do_not_finish = {
      title = "A job has not finished for a day"
      query = "(count(sum by (job) (increase(${local.promql["job_runs_total"]}{${local.cloud_run_resource},outcome=\"finished\",job=~\"${join("|", local.daily)}\"}[25h])) > 0) or vector(0)) < ${length(local.daily)}"
      what  = "`carrel jobs list` shows which. On the first day of a deployment this is expected: some jobs run once a night."
    }
    items_set_apart = {
      title = "Jobs skipped invalid documents"
      query = "sum(increase(${local.promql["set_apart_total"]}{${local.cloud_run_resource}}[1h])) > 0"
      what  = "A stored document is not valid and was skipped; the rest was processed. `carrel jobs show <job>` names it."
    }
  }
}

resource "google_logging_metric" "carrel" {
  for_each         = local.metrics
  name             = each.key
  description      = each.value.description
  filter           = each.value.filter
  label_extractors = each.value.labelExtractors
  value_extractor  = try(each.value.valueExtractor, null)

  metric_descriptor {
    metric_kind = each.value.metricDescriptor.metricKind
    value_type  = each.value.metricDescriptor.valueType
    unit        = each.value.metricDescriptor.unit

    dynamic "labels" {
      for_each = each.value.metricDescriptor.labels

      content {
        key         = labels.value.key
        value_type  = labels.value.valueType
        description = labels.value.description
      }
    }
  }

  dynamic "bucket_options" {
    for_each = try([each.value.bucketOptions.exponentialBuckets], [])

    content {
      exponential_buckets {
        num_finite_buckets = bucket_options.value.numFiniteBuckets
        growth_factor      = bucket_options.value.growthFactor
        scale              = bucket_options.value.scale
      }
    }
  }

  depends_on = [google_project_service.carrel]
}

# Otherwise Google's request logs would contain what people search for in the console. Carrel's own log
# lines never contain content.
resource "google_logging_project_exclusion" "queries" {
  name        = "carrel-queries"
  description = "Requests to Carrel's gateway whose address has a query"
  filter      = "log_id(\"run.googleapis.com/requests\") AND resource.labels.service_name=\"carrel-gateway\" AND httpRequest.requestUrl:\"?\""
  depends_on  = [google_project_service.carrel]
}

resource "google_monitoring_notification_channel" "email" {
  count        = var.alert_email == null ? 0 : 1
  display_name = "Carrel"
  type         = "email"
  labels       = { email_address = var.alert_email }
  depends_on   = [google_project_service.carrel]
}

resource "google_monitoring_alert_policy" "carrel" {
  for_each              = var.alert_email == null ? {} : local.alerts
  display_name          = "Carrel: ${each.value.title}"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].id

  documentation {
    content   = each.value.what
    mime_type = "text/markdown"
  }

  conditions {
    display_name = each.value.title

    condition_prometheus_query_language {
      query               = each.value.query
      duration            = "0s"
      evaluation_interval = "300s"

      # A log-based metric exists only some minutes after its creation, with its first entry.
      disable_metric_validation = true
    }
  }

  depends_on = [google_logging_metric.carrel]
}

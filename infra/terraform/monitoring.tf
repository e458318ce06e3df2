locals {
  metrics = { for metric in jsondecode(file("${path.module}/../build/log_metrics.json")) : metric.name => metric }

  # A metric of ours, as PromQL names it: local.promql["job_runs_total"].
  # https://cloud.google.com/monitoring/promql/promql-mapping
  promql = { for name in keys(local.metrics) : name => "logging_googleapis_com:user_${name}" }
  of_run = "monitored_resource=\"cloud_run_revision\""

  # Jobs that run at least once a day: what their schedule says of days is * alone.
  daily = [for each in values(local.jobs) : each.name if endswith(each.schedule, " * * *")]

  alerts = {
    gateway_fails = {
      title = "The gateway fails"
      query = "sum(increase(run_googleapis_com:request_count{${local.of_run},service_name=\"carrel-gateway\",response_code_class=\"5xx\"}[10m])) > 5"
      what  = "More than five requests in ten minutes were answered with 5xx. The log of carrel-gateway says why."
    }
    tools_fail = {
      title = "Tools fail"
      query = "sum by (tool, code) (increase(${local.promql["tool_calls_total"]}{${local.of_run},code=~\"INTERNAL_ERROR|UNAVAILABLE\"}[15m])) > 5"
      what  = "More than five calls of a tool in fifteen minutes ended in a fault, or found it down. The log of carrel-<tool> says why."
    }
    jobs_stop = {
      title = "A job stops with an error"
      query = "sum by (job) (increase(${local.promql["job_runs_total"]}{${local.of_run},outcome=\"stopped\"}[1h])) > 0"
      what  = "`carrel jobs show <job>` says with which. The next run goes on where this one stopped."
    }
    jobs_do_not_finish = {
      title = "A job has not finished for a day"
      query = "(count(sum by (job) (increase(${local.promql["job_runs_total"]}{${local.of_run},outcome=\"finished\",job=~\"${join("|", local.daily)}\"}[25h])) > 0) or vector(0)) < ${length(local.daily)}"
      what  = "`carrel jobs list` says which. On the first day of a deployment this is as it should be: some jobs run once a night."
    }
    items_set_apart = {
      title = "Jobs set something apart"
      query = "sum(increase(${local.promql["set_apart_total"]}{${local.of_run}}[1h])) > 0"
      what  = "What is not as it is stored is left out, and the rest goes on. `carrel jobs show <job>` names it."
    }
    search_finds_less = {
      title = "Search finds less than it did"
      query = "sum(increase(${local.promql["search_finds_less_total"]}{${local.of_run}}[1h])) > 0"
      what  = "Last night, golden queries found clearly less than in the week before. `carrel jobs show health` has the figures."
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

      # A metric of the log exists some minutes after it was made, and with its first entry.
      disable_metric_validation = true
    }
  }

  depends_on = [google_logging_metric.carrel]
}
